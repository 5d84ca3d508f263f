package verdict

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

// OverSQL gives the mean benefit and its interval over any range of estimates,
// in the dialect of ClickHouse with server-side parameters; it begins with a
// comment that names them. A panel puts its own values in their place.
//
//go:embed over.sql
var OverSQL string

// Support that a mean over blocks of time needs.
const (
	MinLegs   = 20
	MinBlocks = 5
)

// Mean is an average in seconds with its interval. Every number that is not
// known is NaN.
type Mean struct {
	Known  bool   // there is a Value
	Why    string // why there is no value, or no interval; "" where there are both
	Value  float64
	SE     float64
	Lo, Hi float64
	Level  float64 // coverage of (Lo, Hi), 0 to 1

	N       int // decisions that it is of
	Unknown int // further ones of which nothing can be said
	Legs    int // replays behind it; 0 for predictions
	Blocks  int // of time
}

// HasInterval says that the bounds are known.
func (m Mean) HasInterval() bool { return m.Known && !math.IsNaN(m.Lo) && !math.IsNaN(m.Hi) }

func (m Mean) refused(why string) Mean {
	nan := math.NaN()
	m.Known, m.Why, m.Value, m.SE, m.Lo, m.Hi = false, why, nan, nan, nan, nan
	return m
}

// ofPair is the estimate of these very decisions as a Mean.
func ofPair(p estimate.Pair, level float64) Mean {
	return Mean{
		Known: p.Known, Why: p.Why, Value: p.Theta, SE: p.Window.SE, Lo: p.Window.Lo, Hi: p.Window.Hi, Level: level,
		N: p.N, Unknown: p.Unknown + p.Infeasible, Legs: p.Legs, Blocks: p.Blocks,
	}
}

// Over is the mean of contributions with its interval over blocks of time, as
// estimate.Contribution defines it. OverSQL is the same in SQL.
func Over(rows []estimate.Contribution, level float64) Mean {
	m, t := Mean{Level: level}, tally{blocks: map[int64]*[2]float64{}}
	for _, c := range rows {
		m.N, m.Unknown, m.Legs = m.N+c.N, m.Unknown+c.Unknown, m.Legs+c.Legs
		t.add(c)
	}
	m.Blocks = len(t.blocks)
	switch {
	case m.N == 0:
		return m.refused("nothing is known of these decisions")
	case m.Legs < MinLegs:
		return m.refused(fmt.Sprintf("too few legs: %d, %d needed", m.Legs, MinLegs))
	}
	m.Known, m.Value = true, t.sum/t.n
	if m.Blocks < MinBlocks {
		m.SE, m.Lo, m.Hi = math.NaN(), math.NaN(), math.NaN()
		m.Why = fmt.Sprintf("too few blocks of time for an interval: %d, %d needed", m.Blocks, MinBlocks)
		return m
	}
	m.SE = math.Sqrt(t.between(m.Value) + t.delta/t.n*t.delta/t.n)
	half := m.SE * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(m.Blocks - 1)}.Quantile(1-(1-level)/2)
	m.Lo, m.Hi = m.Value-half, m.Value+half
	return m
}

// tally is the sums of contributions.
type tally struct {
	n, sum, delta float64               // delta is Σ N·DeltaSE: blocks share the correction
	blocks        map[int64]*[2]float64 // N and Σφ
}

func (t *tally) add(c estimate.Contribution) {
	if c.N == 0 {
		return
	}
	b := t.blocks[c.Block]
	if b == nil {
		b = &[2]float64{}
		t.blocks[c.Block] = b
	}
	n := float64(c.N)
	b[0], b[1] = b[0]+n, b[1]+c.Sum
	t.n, t.sum, t.delta = t.n+n, t.sum+c.Sum, t.delta+n*c.DeltaSE
}

// between is the variance of the mean over blocks. It adds in the order of the
// blocks, so that a result has the same bits each time.
func (t *tally) between(mean float64) (v float64) {
	for _, k := range slices.Sorted(maps.Keys(t.blocks)) {
		d := t.blocks[k][1] - mean*t.blocks[k][0]
		v += d * d
	}
	k := float64(len(t.blocks))
	return v / (t.n * t.n) * k / (k - 1)
}

// Range is which rows of estimates to average. An empty string is all, and so is
// a Size of nil.
type Range struct {
	Window
	From, To                  schema.Path // the pair; PathNone: all
	Policy, Model, Tier, Link string
	Size                      *int // schema.SizeBucket
}

// Query runs OverSQL. The window is taken as it is, blocks that begin in it are
// counted whole.
func Query(ctx context.Context, conn driver.Conn, r Range, level float64) (Mean, error) {
	const second = "2006-01-02 15:04:05"
	p := ch.Parameters{
		"from": r.Window.From.UTC().Format(second), "until": r.Until.UTC().Truncate(time.Second).Format(second),
		"pair_from": r.From.String(), "pair_to": r.To.String(), "policy": escaped(r.Policy), "model": escaped(r.Model), "tier": escaped(r.Tier), "link": escaped(r.Link), "size_bucket": "",
		"z": strconv.FormatFloat(distuv.UnitNormal.Quantile(1-(1-level)/2), 'g', -1, 64), "min_legs": strconv.Itoa(MinLegs), "min_blocks": strconv.Itoa(MinBlocks),
	}
	if r.Size != nil {
		p["size_bucket"] = strconv.Itoa(*r.Size)
	}
	var value, se, lo, hi *float64
	var n, unknown, legs, blocks uint64
	m := Mean{Level: level}
	err := conn.QueryRow(ch.Context(ctx, ch.WithParameters(p)), OverSQL).Scan(&value, &se, &lo, &hi, &n, &unknown, &legs, &blocks, &m.Why)
	if err != nil {
		return m, fmt.Errorf("average estimates: %w", clickhouse.Explain(err))
	}
	m.Known, m.N, m.Unknown, m.Legs, m.Blocks = value != nil, int(n), int(unknown), int(legs), int(blocks)
	m.Value, m.SE, m.Lo, m.Hi = orNaN(value), orNaN(se), orNaN(lo), orNaN(hi)
	return m, nil
}

func orNaN(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}
