package load

import (
	"errors"
	"fmt"
	"time"
)

// Group is the consumer group of load.
const Group = "kvwhatif-load"

// RebuildGroup is the group of a load that reads everything again from the
// beginning, which changes nothing in tables that have it all. The group of
// the usual load keeps its offsets.
func RebuildGroup(now time.Time) string {
	return Group + "-rebuild-" + now.UTC().Format("20060102T150405.000")
}

// Values of Config.Anchor.
const (
	AnchorContract = "contract" // rows hang on the spans of coordinators
	AnchorEngine   = "engine"   // rows hang on the engines' own spans
)

// Config is what an operator may set.
type Config struct {
	// FromBeginning says that the source is a RebuildGroup's: what positions
	// says of earlier loads is not taken for reached.
	FromBeginning bool `koanf:"from_beginning"`
	// Anchor is the span that a request's row hangs on: "contract", or "engine"
	// for a fleet in which no coordinator writes contract spans. Under
	// "contract", an engine's span waits for its contract span.
	Anchor string `koanf:"anchor"`
	// MaxRows is how many parts one round of inserts holds at most.
	MaxRows int `koanf:"max_rows"`
	// MaxBytes is how many bytes of Kafka messages one round holds at most.
	MaxBytes int `koanf:"max_bytes"`
	// Linger is the least time between two rounds while nobody waits for one.
	Linger time.Duration `koanf:"linger"`
	// RecomputeEvery is the least time between two recomputations of a minute;
	// one that costs more than a tenth of it is done less often.
	RecomputeEvery time.Duration `koanf:"recompute_every"`
	// SweepEvery is how often waiting parts are looked at.
	SweepEvery time.Duration `koanf:"sweep_every"`
	// TraceJoinAfter is how long a part waits before it is joined by its trace
	// alone: until then another anchor of that trace may still come.
	TraceJoinAfter time.Duration `koanf:"trace_join_after"`
	// OrphanAfter is how long a part waits before it becomes a row of its own.
	OrphanAfter time.Duration `koanf:"orphan_after"`
	// Remember is how many spans are kept in memory to find one that comes again
	// with other content, and to join what comes soon after its anchor.
	Remember int `koanf:"remember"`
	// Worst is how many decisions a minute the table worst keeps.
	Worst int `koanf:"worst"`
}

// Default gives the settings that need no thought.
func Default() Config {
	return Config{
		Anchor:         AnchorContract,
		MaxRows:        100_000,
		MaxBytes:       64 << 20,
		Linger:         50 * time.Millisecond,
		RecomputeEvery: 5 * time.Second,
		SweepEvery:     5 * time.Second,
		TraceJoinAfter: 30 * time.Second,
		OrphanAfter:    24 * time.Hour,
		Remember:       200_000,
		Worst:          20,
	}
}

// Validate says what is wrong with c and what to write instead.
func (c Config) Validate() error {
	var errs []error
	if c.Anchor != AnchorContract && c.Anchor != AnchorEngine {
		errs = append(errs, fmt.Errorf("load.anchor: %q is neither %q nor %q", c.Anchor, AnchorContract, AnchorEngine))
	}
	for _, n := range []struct {
		name       string
		value, min int
	}{
		{"max_rows", c.MaxRows, 1}, {"max_bytes", c.MaxBytes, 1 << 20}, {"remember", c.Remember, 0}, {"worst", c.Worst, 1},
	} {
		if n.value < n.min {
			errs = append(errs, fmt.Errorf("load.%s: %d is below %d", n.name, n.value, n.min))
		}
	}
	if c.Worst > 255 {
		errs = append(errs, fmt.Errorf("load.worst: %d is above 255", c.Worst))
	}
	for _, d := range []struct {
		name       string
		value, min time.Duration
	}{
		{"linger", c.Linger, 0}, {"recompute_every", c.RecomputeEvery, 0}, {"sweep_every", c.SweepEvery, time.Millisecond},
		{"trace_join_after", c.TraceJoinAfter, 0}, {"orphan_after", c.OrphanAfter, time.Second},
	} {
		if d.value < d.min {
			errs = append(errs, fmt.Errorf("load.%s: %v is below %v", d.name, d.value, d.min))
		}
	}
	if c.OrphanAfter < c.TraceJoinAfter {
		errs = append(errs, errors.New("load.orphan_after: it must not be below load.trace_join_after"))
	}
	return errors.Join(errs...)
}
