package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/replay/budget"
)

// IdleSettings is the gate that legs wait at, by what the executor reads of the
// engine. One that can not tell has no gate.
type IdleSettings struct {
	Queue units.Duration `koanf:"queue"` // a leg starts where the worker's GPU queue is at most this; 0: whatever it is
	Flows int            `koanf:"flows"` // and where so many transfers at most are on the link; 0: however many
}

func defaultIdle() IdleSettings {
	d := budget.DefaultIdle()
	return IdleSettings{Queue: units.Duration(d.MaxGPUQueue * float64(time.Second)), Flows: int(d.MaxFlows)}
}

// gate is the idle gate. Where an engine may be at some requests, its executor counts
// them, and the queue of a busy one is not asked for: most do not tell it.
func (s ReplaySettings) gate() budget.Idle {
	g := budget.Idle{MaxGPUQueue: time.Duration(s.Idle.Queue).Seconds(), MaxFlows: float64(s.Idle.Flows)}
	if s.Engine.MaxBusy > 0 {
		g.MaxGPUQueue = 0
	}
	return g
}

// BreakerSettings is when replays are taken to hurt production.
type BreakerSettings struct {
	Factor float64        `koanf:"factor"` // of its p99 TTFT away from replays that production may reach beside them; 0: no breaker
	Window units.Duration `koanf:"window"` // of time that is compared
	Pause  units.Duration `koanf:"pause"`  // before replays are tried again
}

func defaultBreaker() BreakerSettings {
	d := budget.DefaultBreaker()
	return BreakerSettings{Factor: d.Factor, Window: units.Duration(d.WindowNanos), Pause: units.Duration(d.PauseNanos)}
}

func (s BreakerSettings) config() budget.BreakerConfig {
	c := budget.DefaultBreaker()
	c.Factor, c.WindowNanos, c.PauseNanos = s.Factor, int64(s.Window), int64(s.Pause)
	return c
}

// StockSettings is what the replay namespace holds before legs run, of executors
// that keep one. Without sizes, legs build what they need.
type StockSettings struct {
	Model string  `koanf:"model"` // as decisions name it
	Sizes []int64 `koanf:"sizes"` // tokens of a fetched prefix
}

func (s ReplaySettings) validate() error {
	errs := []error{s.Breaker.config().Validate()}
	if s.Adapt < 0 {
		errs = append(errs, errors.New("replay.adapt must not be negative: 0s never changes the plan"))
	}
	if s.Idle.Queue < 0 || s.Idle.Flows < 0 {
		errs = append(errs, errors.New("replay.idle.queue and replay.idle.flows must not be negative: 0 is no limit"))
	}
	for _, n := range s.Stock.Sizes {
		if n < 1 {
			errs = append(errs, fmt.Errorf("replay.stock.sizes has %d: give tokens, 1 or more", n))
		}
	}
	return errors.Join(errs...)
}

// killFile is the kill switch of the settings.
func (s *Settings) killFile() string {
	if s.Replay.Kill != "" {
		return s.Replay.Kill
	}
	return filepath.Join(s.Dir, killFile)
}
