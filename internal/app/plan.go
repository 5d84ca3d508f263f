package app

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/sample"
)

// plan is the sampling plan that the settings describe. The same settings and salt
// give the same draws, in the replayer and in the verdict.
func (s ReplaySettings) plan(salt []byte) (*sample.Plan, error) {
	p, err := sample.New(s.params(), salt)
	if err != nil {
		return nil, fmt.Errorf("replay plan: %w", err)
	}
	return p, nil
}

func (s ReplaySettings) params() sample.Params {
	p := sample.DefaultParams()
	p.Rate, p.Control = s.Rate, s.Control
	// Few requests take these paths under a policy that fetches, and each bias is
	// measured on those that do.
	rare := min(1, 20*s.Control)
	p.ControlRates = map[string]float64{"recompute": rare, "route": rare}
	p.MinRate = min(p.MinRate, p.Rate, p.Control)
	return p
}

// salt decodes the secret of the settings; nil where there is none.
func (s ReplaySettings) salt() ([]byte, error) {
	if s.Salt == "" {
		return nil, nil
	}
	raw, err := hex.DecodeString(s.Salt)
	if err != nil || len(raw) < 16 {
		return nil, fmt.Errorf("replay.salt must be 32 hex digits or more: make one with `openssl rand -hex 32`, the same for replay and verdict")
	}
	return raw, nil
}

// limits is the budget that the settings allow.
func (s ReplaySettings) limits() budget.Limits {
	l := budget.DefaultLimits()
	l.Share, l.MaxAgeNanos = s.Share, int64(time.Duration(s.Deadline))
	return l
}
