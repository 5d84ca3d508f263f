package app

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
	"github.com/kvwhatif/kvwhatif/schema/cost"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var evaluateStart = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// evaluateWorld is ten minutes of requests: small prefixes fetch in half the time of
// computing them, large ones take twice as long. One in ten choices is explored.
type evaluateWorld struct {
	settings Settings
	parts    []*schema.Part
	large    []bool
	truth    float64 // mean if large prefixes were computed
	mean     float64
	legs     []evaluateLeg
}

type evaluateLeg struct {
	part      *schema.Part
	path      schema.Path
	kind      schema.Leg
	inclusion float64
	y, model  float64
}

func newEvaluateWorld(t *testing.T, n int) *evaluateWorld {
	w := &evaluateWorld{settings: DefaultSettings()}
	s := &w.settings
	s.Dir, s.Replay.Salt, s.Replay.Rate, s.Replay.Control = t.TempDir(), "00112233445566778899aabbccddeeff", 0.3, 0.3
	salt, err := s.Replay.salt()
	require.NoError(t, err)
	plan, err := s.Replay.plan(salt)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		p, took := w.part(r, i, n)
		for _, d := range plan.Draw(p) {
			y := took[d.Path] - 0.002 // replays are a little quicker
			w.legs = append(w.legs, evaluateLeg{p, d.Path, d.Leg, d.Inclusion, y, p.Decision.Candidates[d.Path&1].TTFT})
		}
	}
	return w
}

// part also gives what each path would have taken.
func (w *evaluateWorld) part(r *rand.Rand, i, n int) (*schema.Part, [5]float64) {
	large := i%20 == 0
	tokens, fetch, compute := int64(1024), 0.05, 0.1
	if large {
		tokens, fetch, compute = 2048, 0.4, 0.2
	}
	var took [5]float64
	took[schema.PathFetch], took[schema.PathRecompute] = fetch*math.Exp(0.1*r.NormFloat64()), compute*math.Exp(0.1*r.NormFloat64())
	nan := math.NaN()
	path := schema.PathFetch
	if r.Float64() < 0.1 {
		path = schema.PathRecompute
	}
	p := &schema.Part{Kind: schema.KindContract, StartNanos: evaluateStart.UnixNano() + int64(i)*int64(10*time.Minute)/int64(n)}
	binary.BigEndian.PutUint64(p.Trace[:], r.Uint64())
	binary.BigEndian.PutUint64(p.Span[:], r.Uint64()|1)
	p.Decision = schema.Decision{
		Policy: "fetch-all", Model: "m", GPU: "g", Worker: "w1", Path: path, Chosen: schema.Some(int64(path & 1)), Link: "rack", SourceTier: schema.TierCPU,
		TokensPrompt: schema.Some(tokens + 64), TokensPrefix: schema.Some(tokens), LinkFlows: schema.Some[int64](2),
		Candidates: []schema.Candidate{
			{Path: schema.PathRecompute, Worker: "w1", TokensComputed: tokens + 64, GPUQueue: 0.001, TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: compute, TTFT: compute, Externality: 0.001, Propensity: 0.1},
			{Path: schema.PathFetch, Worker: "w1", Tier: schema.TierCPU, Links: "rack", TokensFetched: tokens, TokensComputed: 64, Bytes: tokens * 1000, GPUQueue: 0.001,
				TransferQueue: 0.001, Bandwidth: 1e9, Restore: 0.001, Recompute: 0.005, TTFT: fetch, Externality: 0.002, Propensity: 0.9},
		},
	}
	if path == schema.PathRecompute {
		p.Decision.Link, p.Decision.SourceTier = "", schema.TierNone
	}
	p.Observed.TTFT = schema.Some(float64(float32(took[path])))
	w.parts = append(w.parts, p)
	w.mean += took[path] / float64(n)
	if large {
		w.truth += took[schema.PathRecompute] / float64(n)
	} else {
		w.truth += took[schema.PathFetch] / float64(n)
	}
	return p, took
}

func (w *evaluateWorld) store(t *testing.T) driver.Conn {
	w.settings.ClickHouse.DSN = clickhousetest.DSN(t)
	conn, err := clickhouse.Open(t.Context(), w.settings.ClickHouse.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	salt, _ := w.settings.Replay.salt()
	plan, _ := w.settings.Replay.plan(salt)
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO requests (minute, id, trace, spans, contents, kind, start, policy, path, chosen, model, gpu, worker, tier, link, tokens_prompt, tokens_prefix, link_flows, ttft, "+
		"`candidate.path`, `candidate.worker`, `candidate.tier`, `candidate.links`, `candidate.tokens_resident`, `candidate.tokens_fetched`, `candidate.tokens_computed`, `candidate.bytes`, `candidate.gpu_queue`, `candidate.transfer_queue`, `candidate.bandwidth`, `candidate.restore`, `candidate.recompute`, `candidate.ttft`, `candidate.externality`, `candidate.propensity`)")
	require.NoError(t, err)
	for _, p := range w.parts {
		require.NoError(t, b.Append(requestRow(p)...))
	}
	require.NoError(t, b.Send())
	b, err = conn.PrepareBatch(t.Context(), "INSERT INTO replays (start, trace, span, id, plan, path, leg, inclusion, batch, model_decision, model_replay, ttft)")
	require.NoError(t, err)
	for i, l := range w.legs {
		id, ttft := l.part.RowID(), float32(l.y)
		require.NoError(t, b.Append(time.Unix(0, l.part.StartNanos).UTC(), string(id[:]), uint64(i), string(id[:]), plan.ID(), l.path.String(), l.kind.String(), l.inclusion, "b", &l.model, &l.model, &ttft))
	}
	require.NoError(t, b.Send())
	return conn
}

func requestRow(p *schema.Part) []any {
	d, id := &p.Decision, p.RowID()
	var text [4][]string
	var tokens [3][]int32
	var bytes []int64
	var seconds [8][]float32
	for _, c := range d.Candidates {
		for i, s := range []string{c.Path.String(), c.Worker, c.Tier.String(), c.Links} {
			text[i] = append(text[i], s)
		}
		for i, n := range []int64{c.TokensResident, c.TokensFetched, c.TokensComputed} {
			tokens[i] = append(tokens[i], int32(n))
		}
		bytes = append(bytes, c.Bytes)
		for i, s := range []float64{c.GPUQueue, c.TransferQueue, c.Bandwidth, c.Restore, c.Recompute, c.TTFT, c.Externality, c.Propensity} {
			seconds[i] = append(seconds[i], float32(s))
		}
	}
	at, ttft := time.Unix(0, p.StartNanos).UTC(), float32(p.Observed.TTFT.V)
	chosen, prompt, prefix, flows := uint8(d.Chosen.V), uint32(d.TokensPrompt.V), uint32(d.TokensPrefix.V), uint32(d.LinkFlows.V)
	return []any{at.Truncate(time.Minute), string(id[:]), string(p.Trace[:]), []uint64{p.Span.Uint64()}, []uint32{1}, "contract", at, d.Policy, d.Path.String(), &chosen, d.Model, d.GPU, d.Worker,
		d.SourceTier.String(), d.Link, &prompt, &prefix, &flows, &ttft, text[0], text[1], text[2], text[3], tokens[0], tokens[1], tokens[2], bytes,
		seconds[0], seconds[1], seconds[2], seconds[3], seconds[4], seconds[5], seconds[6], seconds[7]}
}

// worldLaws are of a fleet that takes about as long as the world.
func worldLaws(t *testing.T) []byte {
	q := schema.Quality{N: 1000, Form: "line", MaxTokens: 1e6, MaxBytes: 1e12, MaxConcurrent: 100}
	raw, err := coefficients.Marshal(schema.Document{
		Version: schema.DocumentVersion, Revision: 9, Created: 1, RefreshAfter: 2, Expires: 3, Provenance: "test",
		Prefill:  []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C0: 0.012, C1: 9e-5}, Quality: q}},
		Transfer: []schema.TransferFit{{Tier: "cpu", Link: "rack", Law: cost.Transfer{T0: 0.02, Link: cost.Link{B: 1e8}}, Quality: q}},
	})
	require.NoError(t, err)
	return raw
}

func policyFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestEvaluateThroughTheTables: a policy that computes large prefixes is valued by the
// legs and by the propensities of the tables alike, and by single requests only where
// it leaves loads as they were.
func TestEvaluateThroughTheTables(t *testing.T) {
	w := newEvaluateWorld(t, 4000)
	w.store(t)
	o := EvaluateOptions{Span: Span{From: evaluateStart, Until: evaluateStart.Add(10 * time.Minute)}, Limit: 0.3, Seed: 1, PolicyFile: policyFile(t, "name: spare-large\nkind: threshold\n")}
	got, err := Evaluate(t.Context(), &w.settings, o)
	require.NoError(t, err)
	t.Log("\n" + got.Text())
	require.Equal(t, 4000, got.Requests)
	require.Zero(t, got.Undecided)
	assert.Equal(t, MethodReplays, got.By, got.Why)
	assert.Equal(t, StateFaster, got.State)
	for _, name := range []string{MethodReplays, MethodExploration} {
		m := got.method(name)
		require.True(t, m.Known, m.Why)
		assert.InDelta(t, w.mean, m.Logged.Value.V, 1e-6)
		half := m.Value.High.V - m.Value.Value.V
		assert.Less(t, math.Abs(m.Value.Value.V-w.truth), 2*half, name)
		assert.Equal(t, StateFaster, m.State)
	}
	assert.Contains(t, got.method(MethodSimulation).Why, "kvwhatif calibrate")
	assert.NotEmpty(t, got.Slices)

	o.Limit, o.PolicyFile = 0, policyFile(t, "kind: never")
	got, err = Evaluate(t.Context(), &w.settings, o)
	require.NoError(t, err)
	assert.Equal(t, StateUnknown, got.State, "it changes the link's load, and there is no simulator")
	assert.Contains(t, got.Why, "switchback")
	assert.Contains(t, got.Failing([]string{StateUnknown}), "unknown")
	_, err = json.Marshal(got)
	require.NoError(t, err)

	o.Coefficients = filepath.Join(t.TempDir(), "doc.json")
	require.NoError(t, os.WriteFile(o.Coefficients, worldLaws(t), 0o600))
	got, err = Evaluate(t.Context(), &w.settings, o)
	require.NoError(t, err)
	m := got.method(MethodSimulation)
	require.True(t, m.Known, m.Why)
	assert.Equal(t, MethodSimulation, got.By)
	assert.Equal(t, 4000, m.N)
	assert.Contains(t, m.Assumptions[len(m.Assumptions)-1], "no Kafka is named")
	assert.Zero(t, m.LinkPolicy.V)
	o.Coefficients = ""

	o.PolicyFile, o.Limit = policyFile(t, `{"kind": "logged"}`), 0.05
	got, err = Evaluate(t.Context(), &w.settings, o)
	require.NoError(t, err)
	assert.Equal(t, StateEven, got.State, got.Why)
	assert.InDelta(t, w.mean, got.method(MethodReplays).Value.Value.V, 1e-6)
	assert.Zero(t, got.method(MethodReplays).Moved)

	o.From, o.Until = evaluateStart.Add(-time.Hour), evaluateStart.Add(-time.Minute)
	got, err = Evaluate(t.Context(), &w.settings, o)
	require.NoError(t, err)
	assert.Equal(t, StateUnknown, got.State)
	assert.Contains(t, got.Why, "no request with a decision")
}

// TestSwitchbackThroughTheTables: every minute the policy is another, and b is faster.
func TestSwitchbackThroughTheTables(t *testing.T) {
	w := newEvaluateWorld(t, 2000)
	r := rand.New(rand.NewPCG(1, 1))
	isB := []bool{true, true, true, true, true, false, false, false, false, false}
	r.Shuffle(len(isB), func(i, j int) { isB[i], isB[j] = isB[j], isB[i] })
	for _, p := range w.parts {
		p.Decision.Policy = "a"
		if isB[(p.StartNanos-evaluateStart.UnixNano())/int64(time.Minute)] {
			p.Decision.Policy = "b"
			p.Observed.TTFT.V *= 0.8
		}
	}
	w.store(t)
	got, err := Switchback(t.Context(), &w.settings, SwitchbackOptions{
		Span: Span{From: evaluateStart, Until: evaluateStart.Add(10 * time.Minute)}, A: "a", B: "b", Block: time.Minute, BurnIn: 5 * time.Second, Design: "complete",
	})
	require.NoError(t, err)
	t.Log("\n" + got.Text())
	require.True(t, got.Known, got.Why)
	assert.True(t, got.Exact)
	assert.Equal(t, 252, got.Draws)
	assert.Equal(t, StateFaster, got.State)
	assert.InDelta(t, -0.2, got.Effect.Value.V/got.MeanA.V, 0.08)
	assert.Positive(t, got.BurntIn)
	assert.Contains(t, got.Failing([]string{StateFaster}), "b against a")
}

func TestPolicyFiles(t *testing.T) {
	for text, want := range map[string]string{
		"kind: [": "neither YAML nor JSON", "kind: sometimes": "evaluate schema", "kind: cost-model\ncoefficients: none.json": "coefficients get --raw", "": "kind is",
	} {
		_, err := readPolicy(policyFile(t, text))
		assert.ErrorContains(t, err, want, text)
	}
	_, err := readPolicy("")
	assert.ErrorContains(t, err, "--policy FILE")
	p, err := readPolicy(policyFile(t, "kind: threshold\nmargin_seconds: 0.05\n"))
	require.NoError(t, err)
	assert.Equal(t, "threshold", p.Name)
	assert.InDelta(t, 0.05, p.Margin, 0)
}

// TestBlocksComeFromKafka: prefix blocks are found by the row that their part became.
func TestBlocksComeFromKafka(t *testing.T) {
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	s := DefaultSettings()
	wanted := newEvaluateWorld(t, 40).parts
	by := map[schema.RowID]*decided{}
	for i, p := range wanted {
		p.Decision.PrefixBlocks = []int64{int64(i), -7}
		by[p.RowID()] = &decided{decision: p.Decision}
	}
	delete(by, wanted[3].RowID())
	_, note := readBlocks(t.Context(), &s, by)
	assert.Contains(t, note, "no Kafka is named")

	s.Kafka = broker.Cluster()
	require.NoError(t, kafka.EnsureTopics(t.Context(), s.Kafka, []kafka.TopicSpec{{Name: schema.TopicParts, Partitions: 2, Replication: 1, Retention: time.Hour}}))
	w, err := kafka.NewWriter(kafka.WriterConfig{Cluster: s.Kafka})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	for i := range 4 {
		b := wire.AppendBatch(nil, wanted[10*i:10*i+10]...)
		require.NoError(t, w.Produce(t.Context(), schema.TopicParts, kafka.Message{Value: b}, kafka.Message{Value: []byte{0xff, 1, 2}}))
	}
	blocks, note := readBlocks(t.Context(), &s, by)
	assert.Empty(t, note)
	require.Len(t, blocks, 39)
	assert.Equal(t, []int64{9, -7}, blocks[wanted[9].RowID()])
}
