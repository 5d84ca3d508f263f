package verdict

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Scope is which decisions are judged together; an empty field means all. A
// decision's tier and link are those of its choice and, where the choice moves
// nothing, of the alternative that it was weighed against; the link is else that of
// the first candidate that has one: so a recompute that could have been a fetch
// over a link belongs to that link.
type Scope struct {
	Policy  string
	Model   string
	Tier    string // name of a schema.Tier
	Link    string
	Service string // service.name of who decided
}

// String names the scope for people.
func (s Scope) String() string {
	var parts []string
	for _, x := range [...][2]string{{"policy", s.Policy}, {"model", s.Model}, {"tier", s.Tier}, {"link", s.Link}, {"service", s.Service}} {
		if x[1] != "" {
			parts = append(parts, x[0]+" "+x[1])
		}
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

// holds tells whether a decision of that slice belongs to the scope. The service
// is not part of a slice: the query sees to it.
func (s Scope) holds(of estimate.Slice) bool {
	return (s.Policy == "" || s.Policy == of.Policy) && (s.Model == "" || s.Model == of.Model) &&
		(s.Tier == "" || s.Tier == of.Tier) && (s.Link == "" || s.Link == of.Link)
}

// Window is a range of decision times; Until is exclusive. Let it lie as far back
// as legs take: a decision whose legs still run counts as one whose legs failed.
type Window struct{ From, Until time.Time }

// blockLengths divide each other, so that blocks of any two lengths nest.
var blockLengths = [...]time.Duration{
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
	10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// Block is the length of a block of time in an estimate of this window: the
// longest of 5 s, 10 s, 30 s, 1 min, 5 min, 10 min, 30 min, 1 h, 6 h and 24 h
// that gives at least 30 blocks, and 5 s where none does.
func (w Window) Block() time.Duration {
	best := blockLengths[0]
	for _, l := range blockLengths {
		if l <= w.Until.Sub(w.From)/30 {
			best = l
		}
	}
	return best
}

// aligned widens the window to whole blocks since the Unix epoch.
func (w Window) aligned(block time.Duration) Window {
	from, until := w.From.UnixNano(), w.Until.UnixNano()
	b := int64(block)
	return Window{time.Unix(0, from-mod(from, b)).UTC(), time.Unix(0, until+mod(-until, b)).UTC()}
}

func mod(a, b int64) int64 { return (a%b + b) % b }

// Epoch is a stretch of time in which decisions were drawn by one sampling plan:
// from Since until the next epoch's.
type Epoch struct {
	Since time.Time // of the first decision that the plan drew; zero: always
	Plan  *sample.Plan

	// Blind says that Plan does not hold the salt that legs were drawn with. What
	// was intended is then known as a probability only. ID is the plan id that
	// legs carry.
	Blind bool
	ID    string
}

// Blind is an epoch of which the parameters are known but not the salt.
func Blind(since time.Time, p sample.Params, id string) (Epoch, error) {
	plan, err := sample.New(p, make([]byte, 32))
	if err != nil {
		return Epoch{}, fmt.Errorf("epoch of plan %s: %w", id, err)
	}
	return Epoch{Since: since, Plan: plan, Blind: true, ID: id}, nil
}

func (e Epoch) id() string {
	if e.Blind {
		return e.ID
	}
	return e.Plan.ID()
}

// Options say how to judge. The zero value of each field means its default.
type Options struct {
	Estimate estimate.Options

	// Epochs are the sampling plans that were in force, by rising Since. Without
	// one the completeness of replays is not known, and everything is unknown.
	// Decisions before the first Since were never drawn and are left out.
	Epochs []Epoch

	Block        time.Duration // Window.Block; one of the lengths that it names
	Even         float64       // an interval within ± this share of the mean chosen TTFT makes no difference that matters; 0.01, below 0 for none
	LegLag       time.Duration // how long after the window its legs may have started; 2 h
	MaxDecisions int           // more are refused rather than held in memory, some 500 bytes each; 2,000,000
	Now          time.Time     // when the verdict is given; the clock's
}

func (o Options) withDefaults(w Window) Options {
	if o.Block == 0 {
		o.Block = w.Block()
	}
	if o.Even == 0 {
		o.Even = 0.01
	}
	if o.LegLag == 0 {
		o.LegLag = 2 * time.Hour
	}
	if o.MaxDecisions == 0 {
		o.MaxDecisions = 2_000_000
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.Estimate.Level == 0 {
		o.Estimate.Level = 0.95
	}
	return o
}

func (o Options) validate(s Scope, w Window) error {
	if !w.From.Before(w.Until) {
		return fmt.Errorf("the window from %s until %s is empty: give a start before its end", w.From.UTC().Format(time.RFC3339), w.Until.UTC().Format(time.RFC3339))
	}
	if _, ok := schema.ParseTier(s.Tier); !ok {
		return fmt.Errorf("%q is no tier: say gpu, cpu, disk, object or peer", s.Tier)
	}
	ok := false
	for _, l := range blockLengths {
		ok = ok || l == o.Block
	}
	if !ok {
		return fmt.Errorf("a block of %s does not nest with others: take one of %v", o.Block, blockLengths)
	}
	for i, e := range o.Epochs {
		if e.Plan == nil || (e.Blind && e.ID == "") {
			return errors.New("an epoch needs its sampling plan, and the plan's id where the salt is not known")
		}
		if i > 0 && e.Since.Before(o.Epochs[i-1].Since) {
			return errors.New("the epochs of sampling plans must be given by rising start")
		}
	}
	return nil
}

// epochAt is the index of the epoch of an instant, −1 before the first.
func (o Options) epochAt(at time.Time) int {
	for i := len(o.Epochs) - 1; i >= 0; i-- {
		if !at.Before(o.Epochs[i].Since) {
			return i
		}
	}
	return -1
}
