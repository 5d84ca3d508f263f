package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/collector/load"
	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/internal/secure"
)

// Settings is everything that an operator may set, for every stage. `config show`
// lists it with the origin of each value.
type Settings struct {
	Dir        string             `koanf:"dir"`    // of embedded engines, keys and state
	Log        LogSettings        `koanf:"log"`    // of this process
	Listen     string             `koanf:"listen"` // /metrics, /healthz, /readyz; empty: not at all
	Pprof      string             `koanf:"pprof"`  // Go's profiles of this process; empty: not at all
	Kafka      kafka.Cluster      `koanf:"kafka"`  // no brokers: the embedded one, where the command has one
	TLS        secure.ServerFiles `koanf:"tls"`    // of OTLP and of the coefficient server; no cert: none
	Tokens     string             `koanf:"tokens"` // file of bearer tokens that both take, one a line; empty: everybody may come
	Sender     SenderSettings     `koanf:"sender"` // towards a collector or a coefficient server elsewhere
	Topics     TopicSettings      `koanf:"topics"` // created where they are missing
	ClickHouse ClickHouse         `koanf:"clickhouse"`
	Retention  migrate.Retention  `koanf:"retention"` // days; 0 leaves a table as it is
	Collect    otlp.Config        `koanf:"collect"`
	Load       load.Config        `koanf:"load"`
	Replay     ReplaySettings     `koanf:"replay"`
	Calibrate  CalibrateSettings  `koanf:"calibrate"`
	Serve      ServeSettings      `koanf:"serve"`
	Page       PageSettings       `koanf:"page"`
}

// PageSettings is where people look, of up and serve.
type PageSettings struct {
	Address string   `koanf:"address"` // host:port; - for none
	Hosts   []string `koanf:"hosts"`   // names by which it may be asked for beside those of this machine, such as that of a proxy
}

// LogSettings is how a process logs, to standard error.
type LogSettings struct {
	Level  string `koanf:"level"`  // debug, info, warn or error
	Format string `koanf:"format"` // text or json
}

// TopicSettings is how topics are made.
type TopicSettings struct {
	Partitions  int            `koanf:"partitions"`
	Replication int            `koanf:"replication"`
	Retention   units.Duration `koanf:"retention"`
}

// ReplaySettings is what the replayer may do.
type ReplaySettings struct {
	Executor string         `koanf:"executor"` // URL of what runs the legs
	OTLP     string         `koanf:"otlp"`     // host:port of the collector that results are sent to
	Share    float64        `koanf:"share"`    // of production's cost that legs may cost, 0 to 1
	Rate     float64        `koanf:"rate"`     // of decisions that are sampled, (0, 1]
	Control  float64        `koanf:"control"`  // of decisions whose own path is run again, (0, 1]
	Deadline units.Duration `koanf:"deadline"` // of a leg, after its decision
	Kill     string         `koanf:"kill"`     // file whose presence stops all replays; empty: kvwhatif.kill in dir
	Salt     string         `koanf:"salt" secret:"true"`
	Parallel int            `koanf:"parallel"` // legs at once

	Adapt   units.Duration  `koanf:"adapt"` // how often the rates are fitted to the budget, by a new plan; 0: never
	Plans   string          `koanf:"plans"` // of verdict: file or URL of the replayer's plans; empty: those in dir, where there are any
	Idle    IdleSettings    `koanf:"idle"`
	Breaker BreakerSettings `koanf:"breaker"`
	Stock   StockSettings   `koanf:"stock"`
	Engine  EngineSettings  `koanf:"engine"`
}

// CalibrateSettings is how the cost model is refitted.
type CalibrateSettings struct {
	Window  units.Duration `koanf:"window"`   // of data, up to now
	Holdout float64        `koanf:"hold_out"` // last share of the window, which the fit does not see
	MinN    int            `koanf:"min_n"`    // observations that a law needs
	Key     string         `koanf:"key"`      // PEM file of the Ed25519 key; made if missing; empty: calibrate.pem in dir
	Expires units.Duration `koanf:"expires"`  // of a document
}

// ServeSettings is how coefficients are given out.
type ServeSettings struct {
	Address      string         `koanf:"address"`      // host:port
	PriceEvery   units.Duration `koanf:"price_every"`  // link prices are refreshed so often; 0: never
	PriceWindow  units.Duration `koanf:"price_window"` // over which eligible demand is averaged
	Policies     []string       `koanf:"policies"`     // whose demand prices a link; none: everybody's
	Coordinators int            `koanf:"coordinators"` // that share the links; 0: as many as report a status
}

// DefaultSettings needs no thought on one machine.
func DefaultSettings() Settings {
	return Settings{
		Dir: "kvwhatif-data", Log: LogSettings{Level: "info", Format: "text"},
		Topics:  TopicSettings{Partitions: 4, Replication: 1, Retention: units.Duration(7 * 24 * time.Hour)},
		Collect: otlp.Default(), Load: load.Default(),
		Replay: ReplaySettings{
			OTLP: "127.0.0.1:4317", Share: 0.01, Rate: 0.02, Control: 0.02,
			Deadline: units.Duration(10 * time.Minute), Parallel: 4,
			Idle: defaultIdle(), Breaker: defaultBreaker(),
		},
		Calibrate: CalibrateSettings{
			Window: units.Duration(24 * time.Hour), Holdout: 0.3, MinN: 50, Expires: units.Duration(48 * time.Hour),
		},
		Serve: ServeSettings{
			Address: "127.0.0.1:9470", PriceEvery: units.Duration(5 * time.Second), PriceWindow: units.Duration(20 * time.Second),
		},
		Page: PageSettings{Address: defaultPage},
	}
}

// Validate says what is wrong and what to write instead.
func (s *Settings) Validate() error {
	share := func(key string, v float64) error {
		if !(v > 0 && v <= 1) {
			return fmt.Errorf("%s is %v: set it above 0 and up to 1", key, v)
		}
		return nil
	}
	errs := []error{
		s.Collect.Validate(), s.Load.Validate(), s.Retention.Validate(), s.ClickHouse.Validate(), s.Sender.Validate(), s.Page.validate(),
		share("replay.share", s.Replay.Share), share("replay.rate", s.Replay.Rate), share("replay.control", s.Replay.Control),
		share("calibrate.hold_out", s.Calibrate.Holdout), s.Replay.validate(),
	}
	if s.Calibrate.Holdout == 1 {
		errs = append(errs, errors.New("calibrate.hold_out is 1: nothing would be left to fit to, set it below 1"))
	}
	for _, least := range []struct {
		key      string
		v, least int64
	}{
		{"replay.deadline", int64(s.Replay.Deadline), 0}, {"replay.parallel", int64(s.Replay.Parallel), 1},
		{"calibrate.window", int64(s.Calibrate.Window), 1}, {"calibrate.expires", int64(s.Calibrate.Expires), 1}, {"calibrate.min_n", int64(s.Calibrate.MinN), 1},
		{"serve.price_every", int64(s.Serve.PriceEvery), 0}, {"serve.price_window", int64(s.Serve.PriceWindow), 1}, {"serve.coordinators", int64(s.Serve.Coordinators), 0},
	} {
		switch {
		case least.v >= least.least:
		case least.least == 0:
			errs = append(errs, fmt.Errorf("%s must not be negative", least.key))
		default:
			errs = append(errs, fmt.Errorf("%s must be above 0", least.key))
		}
	}
	if s.Topics.Partitions < 1 || s.Topics.Replication < 1 {
		errs = append(errs, errors.New("topics.partitions and topics.replication must be 1 or more"))
	}
	if s.Topics.Retention <= 0 {
		errs = append(errs, errors.New("topics.retention must be above 0: a topic without one fills the disk"))
	}
	if s.Log.Format != "text" && s.Log.Format != "json" {
		errs = append(errs, fmt.Errorf("log.format is %q: set text or json", s.Log.Format))
	}
	if len(s.Kafka.Brokers) > 0 {
		errs = append(errs, s.Kafka.Validate())
	}
	return errors.Join(errs...)
}
