package evaluate_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/evaluate"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// choice is a fetch of 1 GiB that takes 344 ms where computing takes 200.
func choice() *schema.Decision {
	nan := math.NaN()
	return &schema.Decision{
		Policy: "p", Path: schema.PathFetch, Chosen: schema.Some[int64](1), Model: "m", GPU: "g", Link: "l", LinkFlows: schema.Some[int64](15),
		Candidates: []schema.Candidate{
			{Path: schema.PathRecompute, Worker: "w", TokensComputed: 8192, GPUQueue: 0.01, TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: 0.2, TTFT: 0.21, Externality: 0.02},
			{Path: schema.PathFetch, Worker: "w", Tier: schema.TierCPU, Links: "l+core", TokensFetched: 8000, TokensComputed: 192, Bytes: 1 << 30, GPUQueue: 0.01,
				TransferQueue: 0.001, Bandwidth: 50e9 / 16, Restore: 0.001, Recompute: 0.005, TTFT: 0.35, Externality: 0.3},
			{Path: schema.PathRoute, Worker: "v", TokensResident: 8000, TokensComputed: 192, GPUQueue: 0.2, TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: 0.005, TTFT: 0.206, Externality: 0.05},
		},
	}
}

func document() *schema.Document {
	q := schema.Quality{MaxTokens: 1e6, MaxBytes: 1e12, MaxConcurrent: 64}
	return &schema.Document{
		Prefill:  []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: 1e-4}, Quality: q}},
		Transfer: []schema.TransferFit{{Tier: "cpu", Link: "l", Law: cost.Transfer{T0: 1e-3, Link: cost.Link{B: 50e9}}, Quality: q}},
		Links:    []schema.LinkPrice{{Link: "l", Price: cost.Price{Load: 0.5, MeanBytes: 1 << 30}}},
	}
}

func TestPoliciesChoose(t *testing.T) {
	for _, c := range []struct {
		file string
		doc  *schema.Document
		want schema.Path
	}{
		{file: `{"kind":"logged"}`, want: schema.PathFetch},
		{file: `{"kind":"always"}`, want: schema.PathFetch},
		{file: `{"kind":"always","path":"route"}`, want: schema.PathRoute},
		{file: `{"kind":"always","min_tokens":8001}`, want: schema.PathRecompute},
		{file: `{"kind":"never"}`, want: schema.PathRecompute},
		{file: `{"kind":"seed-rule"}`, want: schema.PathRecompute}, // 344 ms against 195
		{file: `{"kind":"threshold"}`, want: schema.PathRecompute},
		{file: `{"kind":"threshold","margin_seconds":-0.2}`, want: schema.PathFetch},
		{file: `{"kind":"threshold","margin_seconds":-0.2,"others":true}`, want: schema.PathRecompute},
		{file: `{"kind":"threshold","path":"route"}`, want: schema.PathRoute},
		{file: `{"kind":"cost-model"}`, want: schema.PathRecompute}, // 0.23 against 0.256 and 0.65
		{file: `{"kind":"cost-model","coefficients":"f"}`, doc: document(), want: schema.PathRoute},
		{file: `{"kind":"link-price","load":0.5,"mean_bytes":1e9,"bandwidth":50e9}`, want: schema.PathRecompute},
		{file: `{"kind":"link-price","load":0.1,"mean_bytes":1e9,"bandwidth":5e12}`, want: schema.PathFetch},
		{file: `{"kind":"link-price","coefficients":"f"}`, doc: document(), want: schema.PathRecompute},
	} {
		p, err := evaluate.ParsePolicy([]byte(c.file))
		require.NoError(t, err, c.file)
		p.Document = c.doc
		got, ok := p.Choose(choice())
		assert.True(t, ok, c.file)
		assert.Equal(t, c.want, got, c.file)
	}
}

// TestPoliciesSayWhatTheyLack: what was not logged is not guessed.
func TestPoliciesSayWhatTheyLack(t *testing.T) {
	for file, spoil := range map[string]func(*schema.Decision){
		`{"kind":"seed-rule"}`:                                               func(d *schema.Decision) { d.Candidates[1].Bandwidth = math.NaN() },
		`{"kind":"threshold","others":true}`:                                 func(d *schema.Decision) { d.Candidates[1].Externality = math.NaN() },
		`{"kind":"link-price","load":0.5,"mean_bytes":1e9,"bandwidth":50e9}`: func(d *schema.Decision) { d.LinkFlows = schema.Count{} },
		`{"kind":"always"}`:                                                  func(d *schema.Decision) { d.Chosen = schema.Count{} },
	} {
		p, err := evaluate.ParsePolicy([]byte(file))
		require.NoError(t, err)
		d := choice()
		spoil(d)
		_, ok := p.Choose(d)
		assert.False(t, ok, file)
	}
	only := choice()
	only.Candidates = only.Candidates[1:2]
	only.Chosen = schema.Some[int64](0)
	p, err := evaluate.ParsePolicy([]byte(`{"kind":"never"}`))
	require.NoError(t, err)
	got, ok := p.Choose(only)
	assert.True(t, ok)
	assert.Equal(t, schema.PathFetch, got, "what cannot be otherwise stays")
}

// TestPolicyFilesAreChecked by the code and by the schema alike, where it can tell.
func TestPolicyFilesAreChecked(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(evaluate.PolicySchema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("policy.json", doc))
	s, err := c.Compile("policy.json")
	require.NoError(t, err)
	for _, f := range []struct {
		file            string
		parses, matches bool
	}{
		{`{"kind":"always"}`, true, true},
		{`{"kind":"threshold","margin_seconds":0.05,"others":true,"min_tokens":512,"path":"fetch","name":"x"}`, true, true},
		{`{"kind":"link-price","load":0.5,"mean_bytes":1e9,"bandwidth":50e9}`, true, true},
		{`{"kind":"cost-model","coefficients":"c.json"}`, true, true},
		{`{}`, false, false},
		{`{"kind":"sometimes"}`, false, false},
		{`{"kind":"always","path":"recompute"}`, false, false},
		{`{"kind":"always","min_tokens":-1}`, false, false},
		{`{"kind":"always","color":"red"}`, false, false},
		{`{"kind":"link-price","load":1}`, false, false},
		{`{"kind":"link-price"}`, false, true},
		{`{"kind":"always","margin_seconds":1}`, false, true},
		{`{"kind":"always","load":0.5}`, false, true},
		{`{"kind":"never","coefficients":"c"}`, false, true},
	} {
		_, err := evaluate.ParsePolicy([]byte(f.file))
		assert.Equal(t, f.parses, err == nil, "%s: %v", f.file, err)
		v, jerr := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(f.file)))
		require.NoError(t, jerr)
		assert.Equal(t, f.matches, s.Validate(v) == nil, f.file)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"kind":"threshold","margin_seconds":0.05}`))
	f.Add([]byte(`{"kind":"link-price","load":0.5,"mean_bytes":1e9,"bandwidth":50e9}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := evaluate.ParsePolicy(raw)
		if err != nil {
			return
		}
		if path, ok := p.Choose(choice()); ok && path != schema.PathFetch && path != schema.PathRecompute && path != schema.PathRoute {
			t.Fatalf("%s chose %s, which was no candidate", raw, path)
		}
	})
}

func TestFeedback(t *testing.T) {
	ds, stay, move := []*schema.Decision{}, []schema.Path{}, []schema.Path{}
	for i := range 100 {
		ds, stay = append(ds, choice()), append(stay, schema.PathFetch)
		move = append(move, map[bool]schema.Path{true: schema.PathRecompute, false: schema.PathFetch}[i < 50])
	}
	capacity := map[string]float64{"l": 50e9}
	f := evaluate.FeedbackOf(ds, stay, capacity, 10, 4, 0.05)
	assert.False(t, f.Carries, f.Why)
	f = evaluate.FeedbackOf(ds, move, capacity, 10, 4, 0.05)
	require.True(t, f.Carries)
	assert.InDelta(t, -50*(1<<30)/10./50e9, f.Links[0].Change, 1e-12)
	assert.Contains(t, f.Why, "link l by -10.7 %")
	assert.InDelta(t, 50*(0.2-0.005-0.001)/40, f.GPUChange, 1e-12)
	f = evaluate.FeedbackOf(ds, move, nil, 100, 0, 0.6)
	assert.InDelta(t, -0.5, f.Links[0].Change, 1e-12, "of the larger load where no capacity is known")
	assert.True(t, f.Carries, "the GPUs' load more than doubles")
	assert.Contains(t, f.Why, "GPUs")
}
