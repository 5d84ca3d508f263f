package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kvwhatif/kvwhatif/schema"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fill sets every field below v to something random, by reflection, so that a
// field added to schema.Part and forgotten here fails the round trip.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
		if ok := v.FieldByName("OK"); ok.IsValid() && !ok.Bool() {
			v.SetZero() // a missing value is not told apart by what V holds
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(r.Uint64() & 0xff)
		}
	case reflect.String:
		v.SetString(strings.Repeat("ä", r.IntN(90)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint8:
		v.SetUint(1 + r.Uint64N(2)) // every enum has values 1 and 2
	case reflect.Int64:
		v.SetInt([]int64{0, -1, 1, math.MinInt64, math.MaxInt64, r.Int64()}[r.IntN(6)])
	case reflect.Float64:
		v.SetFloat([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), r.NormFloat64()}[r.IntN(5)])
	default:
		panic(v.Kind())
	}
}

func randomPart(seed uint64) *schema.Part {
	p := new(schema.Part)
	fill(rand.New(rand.NewPCG(seed, 1)), reflect.ValueOf(p).Elem())
	return p
}

func same(t *testing.T, want, got any) {
	t.Helper()
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
	require.Empty(t, diff)
}

func TestPartRoundTrip(t *testing.T) {
	var d Decoder
	var reused schema.Part
	for seed := range uint64(2000) {
		p := randomPart(seed)
		b := AppendPart(nil, p)
		var alone schema.Part
		require.NoError(t, DecodePart(b, &alone))
		same(t, *p, alone)
		require.NoError(t, d.Part(b, &reused))
		same(t, *p, reused)
		require.Equal(t, b, AppendPart(nil, &reused), "seed %d: bit for bit, NaN and -0 included", seed)
	}
}

func TestMissingIsNotZero(t *testing.T) {
	p := schema.Part{Kind: schema.KindContract, Observed: schema.Observed{Transfer: schema.Some(0.0), Bytes: schema.Some(int64(0))}}
	var got schema.Part
	require.NoError(t, DecodePart(AppendPart(nil, &p), &got))
	require.True(t, got.Observed.Transfer.OK)
	require.True(t, got.Observed.Bytes.OK)
	require.False(t, got.Observed.TTFT.OK)
}

func TestDecodedPartOwnsItsMemory(t *testing.T) {
	p := randomPart(7)
	b := AppendPart(nil, p)
	var d Decoder
	var got schema.Part
	require.NoError(t, d.Part(b, &got))
	clear(b)
	same(t, *p, got)
}

func TestDecodeRefuses(t *testing.T) {
	good := AppendPart(nil, &schema.Part{Kind: schema.KindContract})
	cases := map[string]struct {
		b    []byte
		want string
	}{
		"empty":           {nil, "no kind"},
		"cut":             {[]byte{0x08}, "unexpected EOF"},
		"kind 9":          {[]byte{0x08, 9}, "no value of this schema version"},
		"short trace":     {append(bytes.Clone(good), 0x22, 1, 7), "identifier of 1 bytes"},
		"kind as text":    {[]byte{0x0a, 0}, "wrong wire type"},
		"path 200":        {append(bytes.Clone(good), 0x52, 3, 0x40, 0xc8, 0x01), "decision: field 8"},
		"seconds as text": {append(bytes.Clone(good), 0x5a, 2, 0x12, 0), "observed: field 2: wrong wire type"},
		"blocks of 3":     {append(bytes.Clone(good), 0x52, 6, 0x92, 0x01, 3, 1, 2, 3), "no list of fixed64"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, DecodePart(c.b, new(schema.Part)), c.want)
		})
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	b := AppendPart(nil, &schema.Part{Kind: schema.KindEngine, RequestID: "r"})
	b = append(b, 0xfa, 0x3e, 2, 'h', 'i') // field 1007
	var got schema.Part
	require.NoError(t, DecodePart(b, &got))
	require.Equal(t, "r", got.RequestID)
}

func frames(t *testing.T, msg []byte) (parts [][]byte, err error) {
	t.Helper()
	for f, e := range Frames(msg) {
		if e != nil {
			return parts, e
		}
		parts = append(parts, f)
	}
	return parts, nil
}

func TestOneBadPartCostsItselfAlone(t *testing.T) {
	a, c := randomPart(1), randomPart(3)
	msg := AppendBatch(nil, a)
	msg = append(msg, 0x12, 2, 0x08, 0x09) // a part of kind 9
	msg = append(msg, AppendBatch(nil, c)[2:]...)
	parts, err := frames(t, msg)
	require.NoError(t, err)
	require.Len(t, parts, 3)
	var got schema.Part
	require.NoError(t, DecodePart(parts[0], &got))
	require.Error(t, DecodePart(parts[1], &got))
	require.NoError(t, DecodePart(parts[2], &got))
	same(t, *c, got)
}

func TestFramesRefuse(t *testing.T) {
	good := AppendBatch(nil, randomPart(1))
	cases := map[string]struct {
		msg   []byte
		parts int
		want  string
	}{
		"version 2":      {append([]byte{8, 2}, good[2:]...), 0, "unknown schema version 2"},
		"no version":     {good[2:], 0, "does not begin with one"},
		"empty":          {nil, 0, "does not begin with one"},
		"broken framing": {append(bytes.Clone(good), 0x12, 200), 1, fmt.Sprintf("at byte %d", len(good))},
		"other field":    {append(bytes.Clone(good), 0x18, 1), 1, "field 3 is none of a batch"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			parts, err := frames(t, c.msg)
			require.Len(t, parts, c.parts)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.parts == 0, errors.Is(err, ErrVersion))
		})
	}
}

func TestBatcherSplits(t *testing.T) {
	b := Batcher{Max: 3000}
	var want []*schema.Part
	for seed := range uint64(200) {
		p := randomPart(seed)
		err := b.Add(p)
		if n := len(AppendBatch(nil, p)); n > b.Max {
			require.ErrorIs(t, err, ErrTooLarge, "%d bytes", n)
			continue
		}
		require.NoError(t, err)
		want = append(want, p)
	}
	require.ErrorIs(t, b.Add(&schema.Part{Kind: 1, RequestID: strings.Repeat("x", 3000)}), ErrTooLarge)
	require.ErrorIs(t, b.Add(&schema.Part{Kind: 1, Decision: schema.Decision{Candidates: make([]schema.Candidate, MaxCandidates+1)}}), ErrTooLarge)
	i := 0
	messages := b.Messages()
	require.Greater(t, len(messages), 1)
	for _, msg := range messages {
		require.LessOrEqual(t, len(msg), b.Max)
		for f, err := range Frames(msg) {
			require.NoError(t, err)
			var got schema.Part
			require.NoError(t, DecodePart(f, &got))
			same(t, *want[i], got)
			i++
		}
	}
	require.Equal(t, len(want), i)
	require.Empty(t, b.Messages())
}

func TestDeadLetterRoundTrip(t *testing.T) {
	for _, size := range []int{0, 10, MaxDeadLetterBytes, MaxDeadLetterBytes + 1} {
		l := DeadLetter{Code: "identifier", Reason: "no trace id", Source: SourceKafka, Adapter: "kvreuse", Topic: "kvreuse.parts",
			Partition: 3, Offset: 1 << 40, Index: -1, AtNanos: 1796101720640004131}
		l.SetRecord(bytes.Repeat([]byte{7}, size))
		var got DeadLetter
		require.NoError(t, DecodeDeadLetter(AppendDeadLetter(nil, &l), &got))
		same(t, l, got)
		require.Equal(t, size > MaxDeadLetterBytes, got.Cut())
		require.Equal(t, int64(size), got.Length)
	}
	require.ErrorIs(t, DecodeDeadLetter([]byte{8, 2}, new(DeadLetter)), ErrVersion)
	require.Error(t, DecodeDeadLetter([]byte{8, 1, 0x52, 1, 'x'}, new(DeadLetter)), "bytes without length")
}

// examples are one part of each kind, with round values, for the golden bytes.
func examples() map[string]*schema.Part {
	nan := math.NaN()
	base := func(k schema.Kind, adapter string) *schema.Part {
		return &schema.Part{Kind: k, Adapter: adapter, Service: "router", Trace: schema.TraceID{15: 1}, Span: schema.SpanID{7: 2},
			Parent: schema.SpanID{7: 3}, StartNanos: 1796101720_000000000, EndNanos: 1796101721_500000000, RequestID: "req-1"}
	}
	contract := base(schema.KindContract, "kvreuse")
	contract.Decision = schema.Decision{Policy: "priced", Revision: 7, Tenant: "t1", Path: schema.PathFetch, Chosen: schema.Some(int64(0)),
		Model: "m", GPU: "H200", Worker: "w1", SourceWorker: "w2", SourceTier: schema.TierCPU, Link: "l1",
		TokensPrompt: schema.Some(int64(4096)), TokensPrefix: schema.Some(int64(2048)), TokensReused: schema.Some(int64(2048)),
		LinkFlows: schema.Some(int64(0)), WorkerActive: schema.Some(int64(3)), StateAge: schema.Some(0.25), PrefixBlocks: []int64{1, -2},
		Candidates: []schema.Candidate{
			{Path: schema.PathFetch, Worker: "w1", Source: "w2", Tier: schema.TierCPU, Links: "l1+l2", TokensResident: 0, TokensFetched: 2048,
				TokensComputed: 2048, Bytes: 1 << 28, GPUQueue: 0, TransferQueue: 0.5, Bandwidth: 5e10, Restore: 0, Recompute: 0.125,
				TTFT: 0.75, Externality: 0.0625, Propensity: 0.75},
			{Path: schema.PathRecompute, Worker: "w1", TokensFetched: 0, TokensComputed: 4096, Bytes: -1, TransferQueue: nan, Bandwidth: nan,
				Restore: nan, Recompute: 0.25, TTFT: 0.25, Externality: 0, Propensity: 0.25},
		}}
	contract.Observed = schema.Observed{Bytes: schema.Some(int64(1 << 28)), GPUQueue: schema.Some(0.0), TransferQueue: schema.Some(0.5),
		Transfer: schema.Some(0.25), TransferStart: schema.Some(0.5), ExposedStall: schema.Some(0.75), Restore: schema.Some(0.0),
		Prefill: schema.Some(0.125), TTFT: schema.Some(1.0)}
	engine := base(schema.KindEngine, "vllm")
	engine.Engine = schema.Engine{Model: "m", TokensPrompt: schema.Some(int64(64)), TokensOutput: schema.Some(int64(16)),
		Queue: schema.Some(0.5), Prefill: schema.Some(0.25), Decode: schema.Some(1.0), TTFT: schema.Some(0.75), E2E: schema.Some(1.75)}
	transfer := base(schema.KindTransfer, "lmcache")
	transfer.Transfer = schema.Transfer{Operation: "load", Tier: schema.TierDisk, Source: "w2", Link: "l1", Tokens: schema.Some(int64(256)),
		Bytes: schema.Some(int64(4096)), Queue: schema.Some(0.5), Duration: schema.Some(0.25)}
	replay := base(schema.KindReplay, "kvreuse")
	replay.Replay = schema.Replay{Of: schema.TraceID{0: 9}, OfSpan: schema.SpanID{0: 8}, Plan: "p1", Path: schema.PathRecompute,
		Candidate: schema.Some(int64(1)), Inclusion: 0.125, Leg: schema.LegRejected, Batch: "b1", DecisionGPUQueue: schema.Some(0.5),
		DecisionFlows: schema.Some(int64(4)), ReplayGPUQueue: schema.Some(0.0), ReplayFlows: schema.Some(int64(0)),
		ModelDecision: schema.Some(0.5), ModelReplay: schema.Some(0.25), CostGPU: schema.Some(1.0), CostBytes: schema.Some(int64(1))}
	return map[string]*schema.Part{"contract": contract, "engine": engine, "transfer": transfer, "replay": replay}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestGoldenBytes(t *testing.T) {
	for name, p := range examples() {
		golden(t, name+".hex", hex.Dump(AppendBatch(nil, p)))
	}
	l := DeadLetter{Reason: "no trace id", Source: SourceOTLP, Adapter: "kvreuse", AtNanos: 1}
	l.SetRecord([]byte("record"))
	golden(t, "deadletter.hex", hex.Dump(AppendDeadLetter(nil, &l)))
}

// TestBytesAreThoseOfPartsProto reads what the encoder wrote by parts.proto:
// the text form is a golden file that a person can compare with examples, and
// protobuf's own encoding of what it read is the same bytes.
func TestBytesAreThoseOfPartsProto(t *testing.T) {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := c.Compile(context.Background(), "parts.proto")
	require.NoError(t, err)
	check := func(name protoreflect.Name, b []byte) string {
		m := dynamicpb.NewMessage(files[0].Messages().ByName(name))
		require.NoError(t, proto.Unmarshal(b, m))
		require.Empty(t, m.GetUnknown())
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, hex.Dump(again), hex.Dump(b))
		return prototext.MarshalOptions{Multiline: true}.Format(m)
	}
	for name, p := range examples() {
		text := check("Part", AppendPart(nil, p))
		golden(t, name+".txt", strings.ReplaceAll(text, ":  ", ": ")) // prototext varies its spaces on purpose
	}
	for seed := range uint64(300) {
		check("Part", AppendPart(nil, randomPart(seed)))
	}
	check("Batch", AppendBatch(nil, randomPart(1), randomPart(2)))
	l := DeadLetter{Code: "c", Reason: "r", Source: SourceOTLP, Topic: "t", Partition: 1, Offset: 2, Index: 3, AtNanos: 4, Adapter: "a"}
	l.SetRecord([]byte("record"))
	check("DeadLetter", AppendDeadLetter(nil, &l))
	check("DeadLetter", AppendDeadLetter(nil, RetryMark("t", 1, 2, RetrySent, l.SHA256, 4)))
	check("Batch", MessageOf(AppendPart(nil, randomPart(3))))
	require.Equal(t, AppendBatch(nil, randomPart(3)), MessageOf(AppendPart(nil, randomPart(3))))
}

// Messages that come back lend their memory to the next, and nothing else.
func TestBatcherReuses(t *testing.T) {
	fresh, reused := Batcher{Max: 3000}, Batcher{Max: 3000}
	for range 3 {
		for seed := range uint64(40) {
			p := randomPart(seed)
			require.Equal(t, fresh.Add(p), reused.Add(p))
		}
		want, got := fresh.Messages(), reused.Messages()
		require.Equal(t, want, got)
		for _, msg := range got {
			clear(msg)
		}
		reused.Reuse(got)
	}
	p := randomPart(1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = reused.Add(p)
		messages := reused.Messages()
		reused.Reuse(messages)
	}), "allocations of a message that has memory")
}
