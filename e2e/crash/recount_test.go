package crash

import (
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// recount is what the tables must hold, added up from what was accepted.
type recount struct {
	rows      map[schema.RowID]*wantRow
	waiting   map[spanKey]bool
	slices    map[sliceKey]*sliceSums
	worst     map[int64][]wantWorst // by minute, worst first
	transfers map[transferKey]*[4]float64
	moves     int // rows of transfers
	legs      map[spanKey]*schema.Part
	poison    map[string]bool // request ids and messages among the dead letters
	spans     int
}

// wantRow is a row of requests.
type wantRow struct {
	n        int
	contract *schema.Part
	engine   *schema.Part
	spans    []uint64
	moved    float64
}

type spanKey struct {
	trace schema.TraceID
	span  schema.SpanID
}

type sliceKey struct {
	Minute                          int64
	Policy, Model, Path, Tier, Link string
	Bucket                          int8
}

// transferKey is a group of transfers: origin, operation, tier, link, joined.
type transferKey struct {
	Origin, Operation, Tier, Link string
	Joined                        bool
}

type wantWorst struct {
	id            schema.RowID
	known, shrunk float64
}

// newRecount adds up what was accepted.
func newRecount(s *story, accepted map[item]struct{}) *recount {
	r := &recount{rows: map[schema.RowID]*wantRow{}, waiting: map[spanKey]bool{}, slices: map[sliceKey]*sliceSums{}, worst: map[int64][]wantWorst{},
		transfers: map[transferKey]*[4]float64{}, legs: map[spanKey]*schema.Part{}, poison: map[string]bool{}}
	for it := range accepted {
		r.take(s, it, accepted)
	}
	for id, w := range r.rows {
		if w.contract != nil {
			slices.Sort(w.spans)
			r.slice(w)
			r.candidateForWorst(id, w)
		}
	}
	for minute, list := range r.worst {
		r.worst[minute] = rank(list, r.rows)
	}
	return r
}

// take puts one accepted item where it belongs.
func (r *recount) take(s *story, it item, accepted map[item]struct{}) {
	r.spans++
	p := s.part(it)
	_, decided := accepted[item{it.n, pieceContract}]
	key := spanKey{p.Trace, p.Span}
	switch it.piece {
	case piecePoison, pieceBad:
		r.poison[p.RequestID] = true
		return
	case pieceGarbage:
		r.poison[string(garbage(it))] = true
		return
	case pieceLeg:
		r.legs[key] = p
		return
	case pieceLegEngine:
		return
	case pieceLegLookup:
		r.move(p, "replay", false)
		return
	case pieceStray:
		decided = false
	}
	if p.Kind == schema.KindTransfer {
		r.move(p, "transfer", decided)
	}
	if !decided {
		r.waiting[key] = true
		return
	}
	r.join(s, it, p)
}

// join adds a part to the row of its request.
func (r *recount) join(s *story, it item, p *schema.Part) {
	id := schema.NewRowID(s.traceOf(int(it.n), pieceContract), s.spanOf(int(it.n), pieceContract))
	w := r.rows[id]
	if w == nil {
		w = &wantRow{n: int(it.n)}
		r.rows[id] = w
	}
	w.spans = append(w.spans, p.Span.Uint64())
	switch {
	case it.piece == pieceContract:
		w.contract = p
		if p.Observed.Bytes.OK {
			r.move(p, "contract", true)
		}
	case it.piece == pieceEngine:
		w.engine = p
	case p.Transfer.Operation == "load":
		w.moved += float64(p.Transfer.Bytes.V)
	}
}

func (r *recount) move(p *schema.Part, origin string, joined bool) {
	k := transferKey{origin, p.Transfer.Operation, p.Transfer.Tier.String(), p.Transfer.Link, joined}
	bytes, duration, tokens := p.Transfer.Bytes, p.Transfer.Duration, p.Transfer.Tokens
	if origin == "contract" {
		k.Operation, k.Tier, k.Link = "load", p.Decision.SourceTier.String(), p.Decision.Link
		bytes, duration, tokens = p.Observed.Bytes, p.Observed.Transfer, schema.Count{}
		if len(p.Decision.Candidates) > 0 {
			tokens = schema.Some(p.Decision.Candidates[0].TokensFetched)
		}
	}
	if r.transfers[k] == nil {
		r.transfers[k] = &[4]float64{}
	}
	for i, v := range [...]float64{1, float64(bytes.V), duration.V, float64(tokens.V)} {
		r.transfers[k][i] += v
	}
	r.moves++
}

// benefit is that of the choice, by the definition of the contract: what the other
// path was predicted to take and to impose, less what this one took and imposes.
// Without a prediction, or a TTFT, or the delay of a transfer, it is unknown.
func benefit(p *schema.Part) (v float64, ok bool) {
	c := p.Decision.Candidates
	if len(c) == 0 || !p.Observed.TTFT.OK {
		return 0, false
	}
	own, other := imposes(c[0]), imposes(c[1])
	return c[1].TTFT + other - p.Observed.TTFT.V - own, true
}

// imposes counts a delay that is not applicable as none.
func imposes(c schema.Candidate) float64 {
	if math.IsNaN(c.Externality) {
		return 0
	}
	return c.Externality
}

func (w *wantRow) minute() int64 { return w.contract.StartNanos / int64(time.Minute) * 60 }

// key is the slice of a row. The model is the engine's where the decision names
// none: the engine's span moves the request to another slice.
func (w *wantRow) key() sliceKey {
	d := &w.contract.Decision
	model := d.Model
	if model == "" && w.engine != nil {
		model = w.engine.Engine.Model
	}
	bucket := -1
	if d.TokensPrefix.OK {
		bucket = schema.SizeBucket(d.TokensPrefix.V)
	}
	return sliceKey{w.minute(), d.Policy, model, d.Path.String(), d.SourceTier.String(), d.Link, int8(bucket)}
}

// sliceSums are the columns of slices, in the order of sliceColumns.
type sliceSums struct {
	sums [29]float64
	hist [ddl.TTFTBuckets]uint32
}

var sliceColumns = [...]string{"n", "hurt", "unknown", "orphans", "conflicts", "sum_benefit", "sum_benefit2", "n_ttft", "sum_ttft", "sum_ttft2",
	"n_stages", "sum_ttft_stages", "sum_gpu_queue", "sum_exposed_stall", "sum_restore", "sum_prefill", "sum_remainder",
	"n_transfer", "sum_transfer_queue", "sum_transfer", "n_predicted", "sum_error", "sum_abs_error", "sum_bytes", "sum_moved",
	"sum_tokens_prefix", "sum_tokens_reused", "n_engine", "sum_engine_ttft"}

func (r *recount) slice(w *wantRow) {
	k := w.key()
	s := r.slices[k]
	if s == nil {
		s = &sliceSums{}
		r.slices[k] = s
	}
	v := map[string]float64{"n": 1, "sum_moved": w.moved}
	d, o := &w.contract.Decision, &w.contract.Observed
	if b, ok := benefit(w.contract); ok {
		v["hurt"], v["sum_benefit"], v["sum_benefit2"] = flag(b < 0), b, b*b
	} else {
		v["unknown"] = 1
	}
	if o.TTFT.OK {
		t := o.TTFT.V
		v["n_ttft"], v["sum_ttft"], v["sum_ttft2"] = 1, t, t*t
		v["n_stages"], v["sum_ttft_stages"], v["sum_gpu_queue"], v["sum_exposed_stall"] = 1, t, o.GPUQueue.V, o.ExposedStall.V
		v["sum_restore"], v["sum_prefill"] = o.Restore.V, o.Prefill.V
		v["sum_remainder"] = t - o.GPUQueue.V - o.ExposedStall.V - o.Restore.V - o.Prefill.V
		i := int(math.Ceil(math.Log2(max(t, ddl.TTFTFirstBound)/ddl.TTFTFirstBound) * ddl.TTFTBucketsPerOctave))
		s.hist[min(i, ddl.TTFTBuckets-1)]++
	}
	if o.TTFT.OK && len(d.Candidates) > 0 {
		miss := o.TTFT.V - d.Candidates[0].TTFT
		v["n_predicted"], v["sum_error"], v["sum_abs_error"] = 1, miss, math.Abs(miss)
	}
	if o.Transfer.OK {
		v["n_transfer"], v["sum_transfer_queue"], v["sum_transfer"] = 1, o.TransferQueue.V, o.Transfer.V
	}
	v["sum_bytes"], v["sum_tokens_prefix"], v["sum_tokens_reused"] = float64(o.Bytes.V), float64(d.TokensPrefix.V), float64(d.TokensReused.V)
	if w.engine != nil {
		v["n_engine"], v["sum_engine_ttft"] = 1, w.engine.Engine.TTFT.V
	}
	for i, column := range sliceColumns {
		s.sums[i] += v[column]
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// worstKept is load's default: how many decisions a minute worst has.
const worstKept = 20

func (r *recount) candidateForWorst(id schema.RowID, w *wantRow) {
	if b, ok := benefit(w.contract); ok {
		r.worst[w.minute()] = append(r.worst[w.minute()], wantWorst{id: id, known: b})
	}
}

// rank shrinks benefits to the mean of their policy and path, by the slope of the
// predicted on the observed benefit, and gives them all, worst first.
func rank(list []wantWorst, rows map[schema.RowID]*wantRow) []wantWorst {
	type group struct{ n, known, guess, known2, cross float64 }
	groups := map[string]*group{}
	of := func(w *wantWorst) (*group, float64) {
		c := rows[w.id].contract
		k := c.Decision.Policy + " " + c.Decision.Path.String()
		if groups[k] == nil {
			groups[k] = &group{}
		}
		return groups[k], w.known + c.Observed.TTFT.V - c.Decision.Candidates[0].TTFT
	}
	for i := range list {
		g, guess := of(&list[i])
		g.n, g.known, g.guess = g.n+1, g.known+list[i].known, g.guess+guess
		g.known2, g.cross = g.known2+list[i].known*list[i].known, g.cross+list[i].known*guess
	}
	for i := range list {
		g, _ := of(&list[i])
		mean := g.known / g.n
		slope, spread := 0.0, g.known2/g.n-mean*mean
		if spread > 0 {
			slope = max(0, min(1, (g.cross/g.n-mean*g.guess/g.n)/spread))
		}
		list[i].shrunk = mean + slope*(list[i].known-mean)
	}
	slices.SortFunc(list, func(a, b wantWorst) int {
		if a.shrunk < b.shrunk {
			return -1
		}
		return 1
	})
	return list
}
