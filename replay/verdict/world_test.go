package verdict

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var start = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// window is ten minutes: blocks of 10 s.
var window = Window{start, start.Add(10 * time.Minute)}

// world is traffic whose truth is known: fetching over the congested link "slow"
// costs more than recomputing, over "fast" less.
type world struct {
	plan  *sample.Plan
	parts []*schema.Part
	legs  []leg
	input estimate.Input     // what the tables should give, made without them
	truth map[string]float64 // mean of recompute − fetch over fetched requests, by link
}

type leg struct {
	estimate.Leg
	part *schema.Part
}

func testPlan(t testing.TB) *sample.Plan {
	p := sample.DefaultParams()
	p.Rate, p.Control, p.ControlRates = 0.3, 0.3, map[string]float64{"recompute": 0.8}
	plan, err := sample.New(p, []byte("sixteen bytes or more"))
	require.NoError(t, err)
	return plan
}

func newWorld(t testing.TB, n int, fails float64) *world {
	r := rand.New(rand.NewPCG(1, 2))
	w := &world{plan: testPlan(t), truth: map[string]float64{}}
	counts := map[string]float64{}
	for i := range n {
		part, recompute := w.part(r, i, n)
		if part.Decision.Path == schema.PathFetch {
			link := part.Decision.Link
			w.truth[link] += recompute - part.Observed.TTFT.V
			counts[link]++
		}
		w.parts = append(w.parts, part)
		w.replay(r, part, recompute, fails)
	}
	for link, c := range counts {
		w.truth[link] /= c
	}
	return w
}

// f32 is what a Float32 column gives back.
func f32(x float64) float64 { return float64(float32(x)) }

func (w *world) part(r *rand.Rand, i, n int) (*schema.Part, float64) {
	link, load := "fast", 1.0
	if i%2 == 0 {
		link, load = "slow", 8
	}
	prefix := int64(512 << r.IntN(4))
	compute := 0.05*float64(prefix)/512 + 0.02*r.Float64()
	fetch := 0.02 * float64(prefix) / 512 * load
	recompute := compute * math.Exp(0.05*r.NormFloat64())
	took := f32(fetch * math.Exp(0.1*r.NormFloat64()))
	p := &schema.Part{Kind: schema.KindContract, Service: "router", StartNanos: start.UnixNano() + int64(i)*int64(10*time.Minute)/int64(n)}
	binary.BigEndian.PutUint64(p.Trace[:], r.Uint64())
	binary.BigEndian.PutUint64(p.Span[:], r.Uint64()|1)
	p.Decision = schema.Decision{
		Policy: "greedy", Revision: 7, Model: "m", Path: schema.PathFetch, Chosen: schema.Some[int64](1), Link: link, SourceTier: schema.TierCPU,
		TokensPrefix: schema.Some(prefix), LinkFlows: schema.Some(int64(load)),
		Candidates: []schema.Candidate{
			{Path: schema.PathRecompute, Worker: "w1", TTFT: f32(compute), Externality: 0},
			{Path: schema.PathFetch, Worker: "w1", Tier: schema.TierCPU, Links: link + "+core", TTFT: f32(fetch), Externality: f32(0.001 * load)},
			{Path: schema.PathRecompute, Worker: "w2", TTFT: f32(compute / 2), Externality: math.NaN()},
		},
	}
	if r.Float64() < 0.2 {
		p.Decision.Path, p.Decision.Chosen, p.Decision.Link, p.Decision.SourceTier = schema.PathRecompute, schema.Some[int64](0), "", schema.TierNone
		took = f32(recompute)
	}
	p.Observed.TTFT = schema.Some(took)
	return p, recompute
}

// replay draws and runs the legs, and books what the tables should say.
func (w *world) replay(r *rand.Rand, p *schema.Part, recompute, fails float64) {
	d := estimate.Decision{
		ID: p.RowID(), Block: p.StartNanos / int64(10*time.Second), Path: p.Decision.Path, Alternative: schema.PathRecompute,
		Slice: estimate.Slice{Policy: "greedy", Model: "m", Tier: "cpu", Link: p.Decision.Candidates[1].Links[:4], Size: schema.SizeBucket(p.Decision.TokensPrefix.V)},
		Load:  w.plan.StratumOf(&p.Decision).Load, Stratum: w.plan.StratumOf(&p.Decision).String(), Y: p.Observed.TTFT.V,
	}
	if d.Path == schema.PathRecompute {
		d.Alternative = schema.PathFetch
	}
	nan := math.NaN()
	d.Model = [estimate.NumPaths]float64{nan, p.Decision.Candidates[1].TTFT, p.Decision.Candidates[0].TTFT, nan, nan}
	for _, draw := range w.plan.Draw(p) {
		d.Intended[draw.Path] = 1
		if r.Float64() < fails {
			continue
		}
		y := recompute
		if draw.Path == schema.PathFetch {
			y = p.Decision.Candidates[1].TTFT * math.Exp(0.1*r.NormFloat64())
		}
		l := estimate.Leg{Of: d.ID, Path: draw.Path, Kind: draw.Leg, Y: f32(y - 0.01 + 0.002*r.NormFloat64()), Inclusion: draw.Inclusion,
			ModelDecision: d.Model[draw.Path], ModelReplay: d.Model[draw.Path], Batch: fmt.Sprint(d.Block % 7)}
		w.input.Legs = append(w.input.Legs, l)
		w.legs = append(w.legs, leg{l, p})
	}
	w.input.Decisions = append(w.input.Decisions, d)
}

// database is an empty one with all tables.
func database(t testing.TB) driver.Conn {
	conn := clickhousetest.Open(t)
	_, err := migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	return conn
}

// store puts the world into the tables, each row twice, as redelivery would.
func (w *world) store(t testing.TB, conn driver.Conn) {
	for range 2 {
		storeRequests(t, conn, w.parts)
		storeLegs(t, conn, w.plan.ID(), w.legs)
	}
}

func storeRequests(t testing.TB, conn driver.Conn, parts []*schema.Part) {
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO requests (minute, id, trace, spans, contents, kind, start, service, policy, revision, path, chosen, model, tier, link, tokens_prefix, link_flows, ttft, `candidate.path`, `candidate.worker`, `candidate.tier`, `candidate.links`, `candidate.ttft`, `candidate.externality`)")
	require.NoError(t, err)
	for _, p := range parts {
		d, id := &p.Decision, p.RowID()
		var paths, workers, tiers, links []string
		var ttfts, imposed []float32
		for _, c := range d.Candidates {
			paths, workers, tiers, links = append(paths, c.Path.String()), append(workers, c.Worker), append(tiers, c.Tier.String()), append(links, c.Links)
			ttfts, imposed = append(ttfts, float32(c.TTFT)), append(imposed, float32(c.Externality))
		}
		chosen, prefix, flows := uint8(d.Chosen.V), uint32(d.TokensPrefix.V), uint32(d.LinkFlows.V)
		at, ttft := time.Unix(0, p.StartNanos).UTC(), float32(p.Observed.TTFT.V)
		require.NoError(t, b.Append(at.Truncate(time.Minute), string(id[:]), string(p.Trace[:]), []uint64{77, p.Span.Uint64()}, []uint32{1, 2}, "contract", at,
			p.Service, d.Policy, d.Revision, d.Path.String(), &chosen, d.Model, d.SourceTier.String(), d.Link, &prefix, &flows, &ttft,
			paths, workers, tiers, links, ttfts, imposed))
	}
	require.NoError(t, b.Send())
}

func storeLegs(t testing.TB, conn driver.Conn, plan string, legs []leg) {
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO replays (start, trace, span, id, plan, path, leg, inclusion, batch, model_decision, model_replay, ttft)")
	require.NoError(t, err)
	for i, l := range legs {
		ttft := float32(l.Y)
		at := time.Unix(0, l.part.StartNanos).Add(20 * time.Minute).UTC()
		require.NoError(t, b.Append(at, string(l.Of[:]), uint64(i), string(l.Of[:]), plan, l.Path.String(), l.Kind.String(), l.Inclusion, l.Batch, &l.ModelDecision, &l.ModelReplay, &ttft))
	}
	require.NoError(t, b.Send())
}

func (w *world) options() Options {
	return Options{Epochs: []Epoch{{Plan: w.plan}}, Now: start.Add(time.Hour)}
}
