package llama_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/internal/llama/llamatest"
)

// The bytes are the same everywhere, or figures of two machines are those of two
// models.
func TestModelIsTheSameBytes(t *testing.T) {
	for name, c := range map[string]struct {
		shape llama.Shape
		size  int
		want  string
	}{
		"tiny":    {llamatest.TinyShape(), 867648, "72042144f291a8ab01ae5bda92adb23aec7e4844781c2a1dd88de9f3db7be755"},
		"default": {llama.DefaultShape(), 54610112, "f3fbf5fe34af80aa35566607b86d8ffd12abb2f1c6a0109dfac3a249d9ede800"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, llama.WriteModel(&b, c.shape))
			sum := sha256.Sum256(b.Bytes())
			assert.Equal(t, c.want, hex.EncodeToString(sum[:]))
			assert.Equal(t, c.size, b.Len())
		})
	}
	assert.ErrorContains(t, llama.WriteModel(&bytes.Buffer{}, llama.Shape{Dim: 10, Heads: 3, KVHeads: 1, Vocab: 600}), "multiple of heads")
}

func TestEqualBlocksGiveEqualTokens(t *testing.T) {
	v := llama.DefaultVocab()
	a, b := v.Prefix([]int64{5, -9, 7}, 16, 40), v.Prefix([]int64{5, -9, 8}, 16, 48)
	assert.Len(t, a, 40)
	assert.Equal(t, a[:32], b[:32])
	assert.NotEqual(t, a[32:40], b[32:40])
	assert.Equal(t, v.Prefix([]int64{5, -9}, 16, 32), a[:32], "a longer prompt goes on from a shorter one")
	assert.Len(t, v.Prefix(nil, 16, 9), 9)
	assert.Empty(t, v.Prefix([]int64{1}, 16, 0))
	assert.NotEqual(t, v.Suffix("r", "salt", 9), v.Suffix("r", "other", 9))
	assert.Equal(t, v.Suffix("r", "salt", 9), v.Suffix("r", "salt", 9))
	for _, token := range append(a, v.Suffix("x", "y", 1000)...) {
		require.True(t, token >= v.First && token < v.End, "%d", token)
	}
}

// Flows share a link by equal parts, and the sum of them keeps its rate.
func TestLinkIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := llama.NewLink("wire", 1e6)
		require.NoError(t, err)
		start := time.Now()
		moved := make([]llama.Moved, 3)
		var all sync.WaitGroup
		for i, bytesOf := range []int{1e6, 1e6, 3e6} {
			all.Go(func() {
				var err error
				moved[i], err = link.Move(t.Context(), &bytes.Buffer{}, bytes.NewReader(make([]byte, bytesOf)))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		at := func(i int) float64 { return moved[i].Last.Sub(start).Seconds() }
		assert.InDelta(t, 3, at(0), 0.05, "1 MB at a third of 1 MB/s")
		assert.InDelta(t, 3, at(1), 0.05)
		assert.InDelta(t, 5, at(2), 0.05, "the last 2 MB alone")
		assert.Equal(t, int64(5e6), link.Moved())
		assert.Zero(t, link.Flows())
		assert.Equal(t, 3, moved[0].Others+moved[1].Others+moved[2].Others, "0, 1 and 2")
	})
}

// late is a receiver that the machine keeps from its work now and then.
type late struct{ n int }

func (l *late) Write(b []byte) (int, error) {
	if l.n++; l.n%10 == 0 {
		time.Sleep(30 * time.Millisecond)
	}
	return len(b), nil
}

func TestLinkKeepsItsRateOnABusyMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := llama.NewLink("wire", 1e6)
		require.NoError(t, err)
		time.Sleep(time.Minute) // an idle link saves nothing up
		m, err := link.Move(t.Context(), &late{}, bytes.NewReader(make([]byte, 2e6)))
		require.NoError(t, err)
		assert.InDelta(t, 2, m.Last.Sub(m.First).Seconds(), 0.05)
	})
}

func TestLinkEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := llama.NewLink("wire", 100)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = link.Move(ctx, &bytes.Buffer{}, bytes.NewReader(make([]byte, 1e6)))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, link.Flows())
		_, err = llama.NewLink("", 0)
		assert.ErrorContains(t, err, "at least 1")
	})
}

// A real server: what is computed, saved, restored and erased is what its own
// counts say.
func TestRealServer(t *testing.T) {
	s := llamatest.Server(t, 2)
	v := llamatest.Vocab()
	prefix := v.Prefix([]int64{1, 2, 3}, 200, 600)
	prompt := append(prefix[:600:600], v.Suffix("r", "", 10)...)
	complete := func(slot, generate int, prompt []int32) llama.Completed {
		out, err := s.Complete(t.Context(), llama.Completion{Prompt: prompt, Slot: slot, Generate: generate})
		require.NoError(t, err)
		assert.False(t, out.Begun.Before(out.Sent) || out.First.Before(out.Begun), "%+v", out)
		return out
	}
	whole := complete(0, 3, prompt)
	assert.Equal(t, [2]int64{610, 0}, [2]int64{whole.Computed, whole.Cached})
	assert.NotEmpty(t, whole.Text)
	assert.Equal(t, int64(600), complete(1, 0, prefix).Computed)
	saved, err := s.Save(t.Context(), 1, "x.bin")
	require.NoError(t, err)
	assert.Equal(t, int64(600), saved.Tokens)
	require.NoError(t, s.Erase(t.Context(), 1))
	slots, err := s.Slots(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 0, slots[1].CachedTokens)
	assert.Positive(t, slots[0].CachedTokens)
	restored, err := s.Restore(t.Context(), 1, "x.bin")
	require.NoError(t, err)
	assert.Equal(t, saved, restored)
	suffix := complete(1, 3, prompt)
	assert.Equal(t, [2]int64{10, 600}, [2]int64{suffix.Computed, suffix.Cached})
	assert.Equal(t, whole.Text, suffix.Text, "what follows a restored prefix is what follows a computed one")
	m, err := s.Metrics(t.Context())
	require.NoError(t, err)
	assert.Equal(t, llama.Metrics{Prompt: 610 + 600 + 10, Generated: m.Generated}, m)
	if ran, waited, err := s.CPU(); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		assert.Positive(t, ran)
		assert.GreaterOrEqual(t, waited, time.Duration(0))
	}
	_, err = s.Restore(t.Context(), 1, "none.bin")
	assert.ErrorContains(t, err, "restore")
	assert.NotErrorIs(t, err, llama.ErrUnavailable)
	require.NoError(t, s.Close())
	assert.ErrorIs(t, s.Health(t.Context()), llama.ErrUnavailable)
}

func TestServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := llama.StartServer(t.Context(), llama.ServerConfig{
		Binary: llamatest.Binary(t), Model: filepath.Join(t.TempDir(), "none.gguf"), Dir: t.TempDir(),
	})
	assert.ErrorContains(t, err, "none.gguf")
}
