package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// asPart is what a view says, as a part without what a view leaves out.
func (v *View) asPart() schema.Part {
	p := schema.Part{Kind: schema.KindContract, Adapter: v.Text(TextAdapter), Service: v.Text(TextService), Trace: v.Trace, Span: v.Span,
		StartNanos: v.StartNanos, EndNanos: v.EndNanos, RequestID: v.Text(TextRequestID)}
	d, o := &p.Decision, &p.Observed
	for i, to := range decisionText(d) {
		*to = v.Text(TextPolicy + i)
	}
	for i, to := range decisionCounts(d) {
		*to = v.Count(CountChosen + i)
	}
	for i, to := range observedSeconds(o) {
		*to = v.Second(SecondsGPUQueue + i)
	}
	o.Bytes, d.StateAge = v.Count(CountBytes), v.Second(SecondsStateAge)
	d.Revision, d.Path, d.SourceTier, d.Candidates = v.Revision, v.Path, v.SourceTier, v.Candidates
	return p
}

// seen is p without what a view leaves out.
func seen(p schema.Part) schema.Part {
	p.Parent, p.Decision.PrefixBlocks = schema.SpanID{}, nil
	p.Engine, p.Transfer, p.Replay = schema.Engine{}, schema.Transfer{}, schema.Replay{}
	return p
}

func TestAViewIsThePart(t *testing.T) {
	var v View
	for seed := range uint64(2000) {
		p := randomPart(seed)
		p.Kind, p.Engine, p.Transfer, p.Replay = schema.KindContract, schema.Engine{}, schema.Transfer{}, schema.Replay{}
		require.True(t, v.Contract(AppendPart(nil, p)))
		same(t, seen(*p), v.asPart())
	}
	for name, p := range examples() {
		require.Equal(t, p.Kind == schema.KindContract, v.Contract(AppendPart(nil, p)), name)
	}
}

func TestVarintsOfEveryLength(t *testing.T) {
	for shift := range 64 {
		for _, n := range []uint64{1 << shift, 1<<shift - 1, 0xa5a5a5a5a5a5a5a5 >> shift} {
			b := append(protowire.AppendVarint(nil, n), 0xff, 1, 2, 3, 4, 5, 6, 7)
			got, rest := uvarint(b)
			require.Equal(t, n, got)
			require.Len(t, rest, 8)
			got, rest = uvarint(b[:len(b)-8])
			require.Equal(t, n, got)
			require.Empty(t, rest)
		}
	}
}

// What a view reads is what Decoder.Part reads.
func FuzzView(f *testing.F) {
	for _, p := range examples() {
		f.Add(AppendPart(nil, p))
	}
	whole := AppendPart(nil, examples()["contract"])
	f.Add(append(whole, whole...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v View
		if !v.Contract(b) {
			return
		}
		var p schema.Part
		require.NoError(t, DecodePart(b, &p))
		same(t, seen(p), v.asPart())
	})
}

func BenchmarkView(b *testing.B) {
	p := examples()["contract"]
	enc := AppendPart(nil, p)
	var v View
	b.ReportAllocs()
	b.SetBytes(int64(len(enc)))
	for b.Loop() {
		if !v.Contract(enc) {
			b.Fatal("not read")
		}
	}
}
