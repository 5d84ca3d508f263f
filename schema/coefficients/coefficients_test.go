package coefficients

import (
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testKey = ed25519.NewKeyFromSeed([]byte("a test key of 32 bytes, no more."))

func public() ed25519.PublicKey { return testKey.Public().(ed25519.PublicKey) }

// full has something in every field, and its lists out of order.
func full() schema.Document {
	q := schema.Quality{N: 1200, Form: "c1·n <& more>", Covariance: []float64{1e-12}, Error: 0.05, Floor: 0.04,
		Residuals: [5]float64{-0.02, -0.01, 0, 0.01, 0.02}, MaxTokens: 32768, MaxBytes: 4 << 30, MaxConcurrent: 16}
	return schema.Document{
		Version: 1, Revision: 7, Previous: 6, Created: 1_800_000_000_000_000_000,
		RefreshAfter: 1_800_003_600_000_000_000, Expires: 1_800_086_400_000_000_000, Provenance: "kvwhatif calibrate",
		Fit: schema.Window{FromNanos: 1, UntilNanos: 2, N: 3},
		Prefill: []schema.PrefillFit{
			{Model: "m", GPU: "h200", Law: cost.Prefill{C0: 1e-3, C1: 2e-5, C2: 6e-10, Chunk: 2048}, Quality: q},
			{Model: "m", GPU: "a100", Law: cost.Prefill{C1: 4e-5}, Quality: q},
		},
		Transfer: []schema.TransferFit{{Tier: "peer", Link: "spine", Law: cost.Transfer{T0: 4e-4, Cold: 0.5, Bend: 0.04,
			Link: cost.Link{B: 5e10, B1: 2e10, Gamma: 0.05}}, Quality: q}},
		Restore: []schema.RestoreFit{{Model: "m", Tier: "peer", Law: cost.Restore{D0: 1e-3, D1: 1e-12}, Quality: q}},
		Queue:   schema.QueueFit{Bias: -0.001, Slope: 1.2, Omega: 0.3, Quality: q},
		Links:   []schema.LinkPrice{{Link: "spine", Price: cost.Price{Load: 0.6, MeanBytes: 1 << 30}, Coordinators: 8, AsOf: 5, Demand: 100}},
	}
}

func TestGolden(t *testing.T) {
	signed, err := Seal(full(), testKey)
	require.NoError(t, err)
	for name, got := range map[string][]byte{"document.json": signed.Payload, "document.jws": []byte(signed.Signature)} {
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, got, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s: other bytes are another format: run with -update only if that is meant", name)
	}
}

func TestRoundTrip(t *testing.T) {
	signed, err := Seal(full(), testKey)
	require.NoError(t, err)
	got, err := Open(signed, public())
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(Canonical(full()), got))
	again, err := Marshal(got)
	require.NoError(t, err)
	assert.Equal(t, signed.Payload, again, "canonical bytes are the same each time")
	assert.Equal(t, "a100", got.Prefill[0].GPU, "sorted")
	assert.Equal(t, "h200", full().Prefill[0].GPU, "the caller's own is not sorted")
	assert.Len(t, Digest(signed.Payload), len("sha256:")+64)

	empty, err := Marshal(schema.Document{Version: 1, Revision: 1, Created: 1, RefreshAfter: 1, Expires: 1})
	require.NoError(t, err)
	assert.NotContains(t, string(empty), "null")
	assert.NoError(t, Validate(empty))
}

func TestSignature(t *testing.T) {
	signed, err := Seal(full(), testKey)
	require.NoError(t, err)
	other := ed25519.NewKeyFromSeed([]byte("another test key of 32 bytes....")).Public().(ed25519.PublicKey)
	assert.NoError(t, Verify(signed.Payload, signed.Signature, other, public()), "one key of several is enough")
	assert.ErrorIs(t, Verify(signed.Payload, signed.Signature, other), ErrSignature)
	assert.ErrorIs(t, Verify(signed.Payload, signed.Signature), ErrSignature)
	assert.ErrorIs(t, Verify(signed.Payload, "", public()), ErrSignature)
	for i := range signed.Payload {
		changed := append([]byte(nil), signed.Payload...)
		changed[i] ^= 1
		require.ErrorIs(t, Verify(changed, signed.Signature, public()), ErrSignature)
	}
	// A signature without a key, by the algorithm "none", and by a shared secret.
	for _, header := range []string{"eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9"} {
		assert.ErrorIs(t, Verify(signed.Payload, header+"..AAAA", public()), ErrSignature)
	}
}

func TestKeysAsPEM(t *testing.T) {
	text, err := PublicKeyPEM(public())
	require.NoError(t, err)
	keys, err := ParsePublicKeys(append(text, text...))
	require.NoError(t, err)
	assert.Equal(t, []ed25519.PublicKey{public(), public()}, keys)
	_, err = ParsePublicKeys([]byte("nothing"))
	assert.ErrorContains(t, err, "no PEM block")
	assert.Len(t, KeyID(public()), 16)
}

func TestCheck(t *testing.T) {
	require.NoError(t, Check(ptr(full())))
	for _, tc := range []struct {
		says   string
		change func(*schema.Document)
	}{
		{"version", func(d *schema.Document) { d.Version = 2 }},
		{"at least 1", func(d *schema.Document) { d.Revision = 0 }},
		{"not below", func(d *schema.Document) { d.Previous = 7 }},
		{"created", func(d *schema.Document) { d.Created = 0 }},
		{"out of order", func(d *schema.Document) { d.Expires = d.RefreshAfter - 1 }},
		{"ends before", func(d *schema.Document) { d.Fit.UntilNanos = 0 }},
		{"twice", func(d *schema.Document) { d.Prefill[1] = d.Prefill[0] }},
		{"at least 0", func(d *schema.Document) { d.Prefill[0].Law.C2 = -1 }},
		{"not all 0", func(d *schema.Document) { d.Prefill[0].Law = cost.Prefill{} }},
		{"no tier", func(d *schema.Document) { d.Transfer[0].Tier = "tape" }},
		{"b is above 0", func(d *schema.Document) { d.Transfer[0].Law.Link.B = 0 }},
		{"b, b1", func(d *schema.Document) { d.Transfer[0].Law.Link.B = math.Inf(1) }},
		{"bend below 1", func(d *schema.Document) { d.Transfer[0].Law.Bend = 1 }},
		{"d0 and d1", func(d *schema.Document) { d.Restore[0].Law.D1 = math.NaN() }},
		{"omega", func(d *schema.Document) { d.Queue.Omega = 1.1 }},
		{"load", func(d *schema.Document) { d.Links[0].Price.Load = 1 }},
		{"coordinators", func(d *schema.Document) { d.Links[0].Coordinators = 0 }},
		{"residuals", func(d *schema.Document) { d.Queue.Quality.Residuals[2] = math.NaN() }},
		{"quality", func(d *schema.Document) { d.Restore[0].Quality.N = -1 }},
	} {
		d := full()
		tc.change(&d)
		assert.ErrorContains(t, Check(&d), tc.says)
		_, err := Seal(d, testKey)
		assert.Error(t, err, "and is not sealed")
	}
}

func ptr(d schema.Document) *schema.Document { return &d }

func TestDecodeRefusesWhatItCannotKnow(t *testing.T) {
	for text, says := range map[string]string{
		`{"version":2,"revision":1,"prefill":"of another form"}`: "version 2",
		`{}`:                            "version 0",
		`[1]`:                           "read coefficient document",
		``:                              "read coefficient document",
		strings.Repeat(" ", MaxBytes+1): "over",
	} {
		_, err := Decode([]byte(text))
		assert.ErrorContains(t, err, says)
	}
	payload, err := Marshal(full())
	require.NoError(t, err)
	more := append([]byte(`{"added_later":1,`), payload[1:]...)
	_, err = Decode(more)
	assert.NoError(t, err, "a reader outlives an addition")
	assert.Error(t, Validate(more), "a publisher does not misspell a field")
}

// Every field of the types is in the JSON Schema, and none else.
func TestSchemaHasEveryField(t *testing.T) {
	var form map[string]any
	require.NoError(t, json.Unmarshal(Schema, &form))
	quality := form["$defs"].(map[string]any)["quality"].(map[string]any)
	var walk func(path string, typ reflect.Type, node map[string]any)
	walk = func(path string, typ reflect.Type, node map[string]any) {
		if _, ok := node["$ref"]; ok {
			node = quality
		}
		switch typ.Kind() {
		case reflect.Slice, reflect.Array:
			assert.Equal(t, "array", node["type"], path)
			walk(path+"[]", typ.Elem(), node["items"].(map[string]any))
		case reflect.Struct:
			properties := node["properties"].(map[string]any)
			assert.Len(t, properties, typ.NumField(), path)
			assert.Len(t, node["required"], typ.NumField(), path)
			for i := range typ.NumField() {
				name := typ.Field(i).Tag.Get("json")
				require.Contains(t, properties, name, path)
				walk(path+"."+name, typ.Field(i).Type, properties[name].(map[string]any))
			}
		}
	}
	walk("", reflect.TypeOf(schema.Document{}), form)
}

func FuzzDecode(f *testing.F) {
	payload, err := Marshal(full())
	require.NoError(f, err)
	f.Add(payload)
	f.Add([]byte(`{"version":1,"revision":1}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := Decode(payload)
		if err != nil {
			return
		}
		again, err := Marshal(d)
		if err != nil {
			t.Fatalf("what was decoded cannot be written: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	signed, err := Seal(full(), testKey)
	require.NoError(f, err)
	f.Add(signed.Payload, signed.Signature)
	f.Add([]byte("{}"), "a..b")
	f.Fuzz(func(t *testing.T, payload []byte, signature string) {
		if Verify(payload, signature, public()) == nil && string(payload) != string(signed.Payload) {
			t.Fatal("a forgery verifies")
		}
	})
}
