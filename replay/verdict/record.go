package verdict

import (
	"fmt"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// record is one row of decisions.sql.
type record struct {
	id, trace           string // 16 bytes each
	spans               []uint64
	at                  int64 // Unix nanoseconds
	policy, model, link string
	revision            int64
	tier, path          int8
	chosen, prefix      int64 // −1: not known
	flows, active       int64
	ttft                float64

	paths, local, tiers []int8
	links               []string // bottlenecks
	ttfts, imposed      []float32
}

func (r *record) scan(rows driver.Rows) error {
	return rows.Scan(&r.id, &r.trace, &r.spans, &r.at, &r.policy, &r.revision, &r.model, &r.tier, &r.link, &r.path,
		&r.chosen, &r.prefix, &r.flows, &r.active, &r.ttft,
		&r.paths, &r.local, &r.tiers, &r.links, &r.ttfts, &r.imposed)
}

// part is the record as the sampler saw it, as far as a draw depends on it. It
// is an error where no span of the row is its anchor: the row can not be drawn.
func (r *record) part() (*schema.Part, error) {
	p := &schema.Part{Kind: schema.KindContract, StartNanos: r.at}
	copy(p.Trace[:], r.trace)
	var id schema.RowID
	copy(id[:], r.id)
	found := false
	for _, s := range r.spans {
		span := spanID(s)
		if schema.NewRowID(p.Trace, span) == id {
			p.Span, found = span, true
			break
		}
	}
	if !found {
		return nil, fmt.Errorf("request %s: none of its %d spans is its anchor", id, len(r.spans))
	}
	p.Observed.TTFT = schema.Seconds{V: r.ttft, OK: !math.IsNaN(r.ttft)}
	p.Decision = schema.Decision{
		Policy: r.policy, Path: schema.Path(r.path), Chosen: count(r.chosen), Model: r.model, SourceTier: schema.Tier(r.tier), Link: r.link,
		TokensPrefix: count(r.prefix), LinkFlows: count(r.flows), WorkerActive: count(r.active), Candidates: r.candidates(),
	}
	if d := &p.Decision; d.Link == "" && d.Chosen.OK && d.Chosen.V < int64(len(d.Candidates)) {
		d.Link = d.Candidates[d.Chosen.V].Links
	}
	return p, nil
}

func spanID(n uint64) (s schema.SpanID) {
	for i := range s {
		s[i] = byte(n >> (56 - 8*i))
	}
	return s
}

func count(n int64) schema.Count { return schema.Count{V: max(n, 0), OK: n >= 0} }

// candidates are as long as the shortest array, so that a row whose arrays
// differ in length has no more than what is whole.
func (r *record) candidates() []schema.Candidate {
	n := min(len(r.paths), len(r.local), len(r.tiers), len(r.links), len(r.ttfts), len(r.imposed))
	out := make([]schema.Candidate, n)
	for i := range out {
		out[i] = schema.Candidate{
			Path: schema.Path(r.paths[i]), Tier: schema.Tier(r.tiers[i]), Links: r.links[i],
			TTFT: float64(r.ttfts[i]), Externality: float64(r.imposed[i]),
		}
		if r.local[i] == 0 {
			out[i].Worker = "another"
		}
		if r.links[i] != "" {
			out[i].Bytes = 1 // how many is not read: what names a link moves some over it
		}
	}
	return out
}

// fact is what the tables say of a decision beyond what the estimator needs.
type fact struct {
	benefit  float64 // predicted, of the choice, own and others'; NaN without an alternative
	others   float64 // delay that the choice spared others against its alternative; NaN likewise
	revision int64
	epoch    int // index in Options.Epochs, −1 where there are none
}

// decision brings a record into the estimator's form; its block is still to be
// set.
func (r *record) decision(part *schema.Part, plan *sample.Plan) (estimate.Decision, fact) {
	d := &part.Decision
	out := replay.DecisionOf(plan, part, 0)
	f := fact{benefit: math.NaN(), others: math.NaN(), revision: r.revision}
	if alt := d.Alternative(); alt >= 0 {
		a := &d.Candidates[alt]
		f.others = orZero(a.Externality) - orZero(d.Candidates[d.Chosen.V].Externality)
		f.benefit = a.TTFT - r.ttft + f.others
	}
	return out, f
}

func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}
