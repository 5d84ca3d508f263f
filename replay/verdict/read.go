package verdict

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

//go:embed decisions.sql
var decisionsSQL string

//go:embed legs.sql
var legsSQL string

// Sample is the decisions of a window with their legs, and what was left out.
type Sample struct {
	Window Window // whole blocks
	Block  time.Duration
	Input  estimate.Input

	Undrawn   int            // decisions before the first epoch, left out: no plan ever drew them
	Unread    int            // decisions left out because no span of their row is its anchor
	StrayLegs map[string]int // legs left out because their plan is not among the epochs, by plan id

	epochs []Epoch
	facts  []fact // by position in Input.Decisions
	names  names
}

// names keeps one copy of each of the few names that rows repeat.
type names map[string]string

func (n names) one(s string) string {
	if kept, ok := n[s]; ok {
		return kept
	}
	s = strings.Clone(s)
	n[s] = s
	return s
}

// Read gives the decisions of a scope in a window, which it widens to whole
// blocks, and their legs. Errors are of the database, or say which argument is
// wrong.
func Read(ctx context.Context, conn driver.Conn, s Scope, w Window, opt Options) (*Sample, error) {
	opt = opt.withDefaults(w)
	if err := opt.validate(s, w); err != nil {
		return nil, err
	}
	w = w.aligned(opt.Block)
	ctx = ch.Context(ctx, ch.WithParameters(parameters(s, w, opt)))
	out := &Sample{Window: w, Block: opt.Block, StrayLegs: map[string]int{}, epochs: opt.Epochs, names: names{}}
	at, err := out.readDecisions(ctx, conn, s, opt)
	if err != nil {
		return nil, fmt.Errorf("read decisions of %s: %w", s, err)
	}
	if err := out.readLegs(ctx, conn, at); err != nil {
		return nil, fmt.Errorf("read legs of %s: %w", s, err)
	}
	return out, nil
}

func parameters(s Scope, w Window, opt Options) ch.Parameters {
	return ch.Parameters{
		"from": strconv.FormatInt(w.From.UnixNano(), 10), "until": strconv.FormatInt(w.Until.UnixNano(), 10),
		"legs_until": strconv.FormatInt(w.Until.Add(opt.LegLag).UnixNano(), 10),
		"policy":     escaped(s.Policy), "model": escaped(s.Model), "tier": escaped(s.Tier), "link": escaped(s.Link), "service": escaped(s.Service),
		"limit": strconv.Itoa(opt.MaxDecisions + 1),
	}
}

// ClickHouse reads a parameter as tab-separated text: without this a name with a
// newline is refused, and one with a backslash is another name.
var escapes = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)

func escaped(name string) string { return escapes.Replace(name) }

// readDecisions fills Decisions and gives their positions by id.
func (s *Sample) readDecisions(ctx context.Context, conn driver.Conn, scope Scope, opt Options) (map[schema.RowID]int, error) {
	rows, err := conn.Query(ctx, decisionsSQL)
	if err != nil {
		return nil, clickhouse.Explain(err)
	}
	defer rows.Close()
	fallback, err := sample.New(sample.DefaultParams(), make([]byte, 32)) // its strata serve where no plan is known
	if err != nil {
		return nil, err
	}
	at, seen := map[schema.RowID]int{}, 0
	for rows.Next() {
		if seen++; seen > opt.MaxDecisions {
			return nil, fmt.Errorf("more than %d decisions: judge a shorter window or a narrower scope", opt.MaxDecisions)
		}
		var r record
		if err := r.scan(rows); err != nil {
			return nil, clickhouse.Explain(err)
		}
		if id, ok := s.take(&r, scope, opt, fallback); ok {
			at[id] = len(s.Input.Decisions) - 1
		}
	}
	return at, clickhouse.Explain(rows.Err())
}

// take adds a record that belongs to the scope and can be drawn.
func (s *Sample) take(r *record, scope Scope, opt Options, fallback *sample.Plan) (id schema.RowID, ok bool) {
	part, err := r.part()
	if err != nil {
		s.Unread++
		return id, false
	}
	at := time.Unix(0, r.at)
	epoch, plan := opt.epochAt(at), fallback
	if epoch >= 0 {
		plan = opt.Epochs[epoch].Plan
	}
	d, f := r.decision(part, plan)
	if !scope.holds(d.Slice) {
		return id, false
	}
	if epoch < 0 && len(opt.Epochs) > 0 {
		s.Undrawn++
		return id, false
	}
	d.Stratum, d.Slice.Policy, d.Slice.Model = s.names.one(d.Stratum), s.names.one(d.Slice.Policy), s.names.one(d.Slice.Model)
	d.Slice.Tier, d.Slice.Link = s.names.one(d.Slice.Tier), s.names.one(d.Slice.Link)
	d.Block, f.epoch = at.UnixNano()/int64(s.Block), epoch
	switch {
	case epoch < 0:
		d.Intended = [estimate.NumPaths]float64{}
	case opt.Epochs[epoch].Blind:
		d.Intended = probable(part, plan)
	}
	s.Input.Decisions, s.facts = append(s.Input.Decisions, d), append(s.facts, f)
	return d.ID, true
}

// probable is how likely each leg was drawn, by the path that it runs.
func probable(part *schema.Part, plan *sample.Plan) (by [estimate.NumPaths]float64) {
	if sample.Eligible(part) != "" {
		return by
	}
	for b := range by {
		by[b] = plan.Inclusion(part, schema.Path(b))
	}
	by[part.Decision.Path] = plan.ControlRate(part.Decision.Path)
	return by
}

func (s *Sample) readLegs(ctx context.Context, conn driver.Conn, at map[schema.RowID]int) error {
	rows, err := conn.Query(ctx, legsSQL)
	if err != nil {
		return clickhouse.Explain(err)
	}
	defer rows.Close()
	known := map[string]bool{}
	for _, e := range s.epochs {
		known[e.id()] = true
	}
	for rows.Next() {
		var l estimate.Leg
		var id, plan string
		var path, kind int8
		if err := rows.Scan(&id, &path, &kind, &plan, &l.Inclusion, &l.Batch, &l.Y, &l.ModelDecision, &l.ModelReplay); err != nil {
			return clickhouse.Explain(err)
		}
		copy(l.Of[:], id)
		l.Batch = s.names.one(l.Batch)
		l.Path, l.Kind = schema.Path(path), schema.Leg(kind)
		i, ok := at[l.Of]
		switch {
		case !ok:
		case !known[plan]:
			s.StrayLegs[plan]++
		default:
			s.Input.Legs = append(s.Input.Legs, l)
			s.ran(i, l)
		}
	}
	return clickhouse.Explain(rows.Err())
}

// ran says of a leg that came back that it was drawn.
func (s *Sample) ran(i int, l estimate.Leg) {
	d := &s.Input.Decisions[i]
	if int(l.Path) < estimate.NumPaths && !s.epochs[s.facts[i].epoch].Blind && !math.IsNaN(l.Y) {
		d.Intended[l.Path] = 1
	}
}
