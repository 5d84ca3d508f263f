package sample

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Params are the parameters of a plan. Rates are probabilities in (0, 1].
type Params struct {
	Version int     `json:"version"`  // grows by one with each adaptation
	Rate    float64 `json:"rate"`     // of strata that Rates does not name
	MinRate float64 `json:"min_rate"` // π_min: no stratum is sampled more rarely
	Control float64 `json:"control"`  // rate of control legs of paths that ControlRates does not name

	Rates        map[string]float64 `json:"rates,omitempty"`         // by Stratum.String()
	ControlRates map[string]float64 `json:"control_rates,omitempty"` // by name of the chosen path
	Weights      map[string]float64 `json:"weights,omitempty"`       // of a path kind in the draw of the alternative; 1 where not named

	MarginBounds []float64 `json:"margin_bounds"` // upper bounds of (m_b − m_a)/m_a, rising
	LoadBounds   []float64 `json:"load_bounds"`   // upper bounds of flows on the link, rising
}

// DefaultParams samples 2 % of the decisions, never under 0.2 %, runs controls
// of 2 % (half of those that had a choice and were recomputed or routed, which
// are rare and carry the bias corrections), and draws a recompute twice as often as any other path.
func DefaultParams() Params {
	return Params{
		Version: 1, Rate: 0.02, MinRate: 0.002, Control: 0.02,
		ControlRates: map[string]float64{"recompute": 0.5, "route": 0.5},
		Weights:      map[string]float64{"recompute": 2},
		MarginBounds: []float64{-0.5, -0.1, 0.1, 0.5},
		LoadBounds:   []float64{1, 4, 16},
	}
}

// Plan is a sealed set of parameters with its secret salt. It is safe for
// concurrent use.
type Plan struct {
	params Params
	salt   []byte
	id     string
}

// minSalt is the least length of a salt, in bytes.
const minSalt = 16

// New checks the parameters and seals them. The salt is secret and at least 16
// bytes: whoever knows it knows which requests are watched.
func New(p Params, salt []byte) (*Plan, error) {
	if len(salt) < minSalt {
		return nil, fmt.Errorf("sampling plan: the salt has %d bytes, give at least %d random ones", len(salt), minSalt)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("sampling plan: %w", err)
	}
	p = p.clone()
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("sampling plan: encode parameters: %w", err)
	}
	salted := sha256.Sum256(salt)
	sum := sha256.Sum256(append(text, salted[:]...))
	return &Plan{
		params: p, salt: slices.Clone(salt),
		id: fmt.Sprintf("v%d-%s", p.Version, hex.EncodeToString(sum[:8])),
	}, nil
}

// ID names the plan: its version and a hash of its parameters and salt. Equal
// ids mean equal draws.
func (p *Plan) ID() string { return p.id }

// Params gives a copy of the parameters, without the salt; together with a
// record they make every π recomputable.
func (p *Plan) Params() Params { return p.params.clone() }

func (p Params) clone() Params {
	p.Rates, p.ControlRates, p.Weights = maps.Clone(p.Rates), maps.Clone(p.ControlRates), maps.Clone(p.Weights)
	p.MarginBounds, p.LoadBounds = slices.Clone(p.MarginBounds), slices.Clone(p.LoadBounds)
	return p
}

func (p Params) validate() error {
	if p.Version < 1 {
		return fmt.Errorf("version is %d, the first is 1", p.Version)
	}
	for name, v := range map[string]float64{"rate": p.Rate, "min_rate": p.MinRate, "control": p.Control} {
		if !(v > 0 && v <= 1) {
			return fmt.Errorf("%s is %v, it must be above 0 and at most 1 (turn replaying off rather than sample nothing)", name, v)
		}
	}
	for name, v := range p.Rates {
		if !(v > 0 && v <= 1) {
			return fmt.Errorf("the rate of stratum %q is %v, it must be above 0 and at most 1", name, v)
		}
	}
	if err := p.validatePaths(); err != nil {
		return err
	}
	if !sort.Float64sAreSorted(p.MarginBounds) || !sort.Float64sAreSorted(p.LoadBounds) {
		return errors.New("margin_bounds and load_bounds must rise")
	}
	return nil
}

func (p Params) validatePaths() error {
	for name, v := range p.ControlRates {
		if path, ok := schema.ParsePath(name); !ok || path == schema.PathNone || !(v > 0 && v <= 1) {
			return fmt.Errorf("control rate %q: %v: name a path and give a rate above 0 and at most 1", name, v)
		}
	}
	for name, v := range p.Weights {
		if path, ok := schema.ParsePath(name); !ok || path == schema.PathNone || !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("weight %q: %v: name a path and give a weight above 0", name, v)
		}
	}
	return nil
}

// Rate is the probability with which decisions of stratum s are sampled; at
// least MinRate, at most 1.
func (p *Plan) Rate(s Stratum) float64 { return p.rateOf(s.String()) }

func (p *Plan) rateOf(stratum string) float64 {
	rate, ok := p.params.Rates[stratum]
	if !ok {
		rate = p.params.Rate
	}
	return math.Min(1, math.Max(p.params.MinRate, rate))
}

// ControlRate is the probability of a control leg of a decision that chose path
// a; at least MinRate, at most 1.
func (p *Plan) ControlRate(a schema.Path) float64 {
	rate, ok := p.params.ControlRates[a.String()]
	if !ok {
		rate = p.params.Control
	}
	return math.Min(1, math.Max(p.params.MinRate, rate))
}

func (p *Plan) weight(b schema.Path) float64 {
	if w, ok := p.params.Weights[b.String()]; ok {
		return w
	}
	return 1
}
