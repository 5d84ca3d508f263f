package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// bodies are the blocks of a batch, as sent.
func bodies(t *testing.T, b *batch) (all []string) {
	t.Helper()
	b.settle()
	for _, full := range b.blocks.filled {
		body, err := full.encode()
		require.NoError(t, err)
		all = append(all, full.insert()+string(body))
	}
	return all
}

// TestAPartIsTheSameRowHoweverItIsWritten: by the short way of a View, and by the
// long one for what a View does not read.
func TestAPartIsTheSameRowHoweverItIsWritten(t *testing.T) {
	plain := contract(1, 0)
	withEngine := contract(1, 0)
	withEngine.Engine = engine(1, 0).Engine
	later := protowire.AppendVarint(protowire.AppendTag(wire.AppendPart(nil, plain), 1<<20, protowire.VarintType), 7)
	m, err := newMetrics(nil)
	require.NoError(t, err)
	want := newBatch(Default(), time.Now, m)
	want.message(kafka.Message{Value: wire.AppendBatch(nil, plain)})
	for name, frame := range map[string][]byte{"fields of another kind": wire.AppendPart(nil, withEngine), "a field of a later revision": later} {
		require.False(t, new(wire.View).Contract(frame), name)
		got := newBatch(Default(), time.Now, m)
		got.message(kafka.Message{Value: framed(wire.AppendBatch(nil), frame)})
		require.Empty(t, got.dead, name)
		for _, rows := range []*batch{want, got} { // hashes of what was on the wire differ, as they should
			clear(*rows.blocks.filled[0].direct.contentOf)
		}
		require.Equal(t, bodies(t, want), bodies(t, got), name)
	}
}

// TestWhatIsNotSaidIsNotSent: a column that no row of a block has is left to the
// default of the table, and one that some have is filled up.
func TestWhatIsNotSaidIsNotSent(t *testing.T) {
	w := newWorld(t)
	bare := &schema.Part{Kind: schema.KindContract, Trace: traceOf(1), Span: spanOf(1), StartNanos: base.UnixNano()}
	w.topic.publish(0, bare)
	w.loaded()
	const all = "SELECT adapter, policy, request_id, revision, path, chosen, tier, model, tokens_prompt, bytes, ttft, remainder, candidate.path, candidate.ttft, alt_path, alt_ttft, externality FROM requests FINAL "
	require.Equal(t, "\t\t\t0\t\t\\N\t\t\t\\N\t\\N\t\\N\t\\N\t[]\t[]\t\t\\N\t\\N\n", w.lines(all))
	second := *bare
	second.Trace, second.Span = traceOf(2), spanOf(2)
	third := *bare
	third.Trace, third.Span = traceOf(4), spanOf(4)
	w.topic.publish(0, &second, contract(3, 0), &third)
	w.loaded()
	require.EqualValues(t, 3, w.number("SELECT count() FROM requests FINAL WHERE policy = '' AND chosen IS NULL AND ttft IS NULL AND empty(candidate.path)"))
	require.Equal(t, "always\tllama\t0\t['fetch','recompute']\trecompute\n", w.lines("SELECT policy, model, chosen, candidate.path, alt_path FROM requests FINAL WHERE policy != ''"))
}

// TestDictHoldsEveryText sends more texts than a byte counts, and then few.
func TestDictHoldsEveryText(t *testing.T) {
	w := newWorld(t)
	for _, n := range []uint64{1, 300, 70_000, 2} {
		require.NoError(t, w.conn.Exec(t.Context(), "TRUNCATE TABLE requests"))
		var parts []*schema.Part
		for i := range n {
			p := contract(i, 0)
			p.RequestID, p.Decision.Worker, p.Decision.Candidates = fmt.Sprint("w", i), fmt.Sprint("w", i), nil
			p.Observed.Bytes = schema.Count{}
			parts = append(parts, p)
		}
		for i := 0; i < len(parts); i += 1000 {
			w.topic.publish(0, parts[i:min(i+1000, len(parts))]...)
		}
		w.loaded()
		require.EqualValues(t, n, w.number("SELECT uniqExact(worker) FROM requests"), n)
		require.EqualValues(t, n, w.number("SELECT countIf(request_id = worker) FROM requests"), n)
	}
}
