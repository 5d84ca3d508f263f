package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

func someLegs(t *testing.T, n int) []execute.Leg {
	legs, err := newRunner(t, NewMemoryStore(), &sink{}, nil).Offer(start, decisions(200))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(legs), n)
	return legs[:n]
}

func reopen(t *testing.T, s *Store, dir string, forget int64) *Store {
	require.NoError(t, s.Close())
	out, err := OpenStore(dir, forget)
	require.NoError(t, err)
	return out
}

func TestStoreKeepsEachState(t *testing.T) {
	dir, legs := t.TempDir(), someLegs(t, 4)
	s, err := OpenStore(dir, 0)
	require.NoError(t, err)
	_, err = OpenStore(dir, 0)
	assert.ErrorContains(t, err, "another process")
	result := execute.Result{StartNanos: 1, EndNanos: 2, Observed: schema.Observed{TTFT: schema.Some(0.5)}}
	for i := range legs {
		require.NoError(t, s.append(line{ID: legs[i].ID, At: int64(i), Leg: &legs[i]}))
	}
	require.NoError(t, s.append(line{ID: legs[1].ID, At: 10, Result: &result}))
	require.NoError(t, s.append(line{ID: legs[2].ID, At: 20, Done: true}, line{ID: legs[3].ID, At: 30, Done: true}))

	for range 2 { // once from the log, once from what compaction made of it
		s = reopen(t, s, dir, 25)
		planned, unsent := s.pending()
		assert.Empty(t, cmp.Diff([]execute.Leg{legs[0]}, planned, cmpopts.EquateNaNs()))
		assert.Empty(t, cmp.Diff([]finished{{legs[1], result}}, unsent, cmpopts.EquateNaNs(), cmp.AllowUnexported(finished{})))
		assert.True(t, s.seen(legs[3].ID))
		assert.False(t, s.seen(legs[2].ID), "done before the instant to forget")
	}
	require.NoError(t, s.Forget(100))
	assert.False(t, s.seen(legs[3].ID))
	require.NoError(t, s.append(line{ID: legs[2].ID, At: 40, Done: true}))
	s = reopen(t, s, dir, 0)
	assert.True(t, s.seen(legs[2].ID), "what is written after a compaction is kept")
	require.NoError(t, s.Close())
	assert.Error(t, s.append(line{ID: "x"}), "closed")
}

// TestStoreAfterACrash cuts the file at each byte: whole records count, the one
// that was being written does not.
func TestStoreAfterACrash(t *testing.T) {
	dir, legs := t.TempDir(), someLegs(t, 3)
	s, err := OpenStore(dir, 0)
	require.NoError(t, err)
	var ends []int64
	for i := range legs {
		require.NoError(t, s.append(line{ID: legs[i].ID, Leg: &legs[i]}))
		info, err := os.Stat(filepath.Join(dir, storeFile))
		require.NoError(t, err)
		ends = append(ends, info.Size())
	}
	require.NoError(t, s.Close())
	data, err := os.ReadFile(filepath.Join(dir, storeFile))
	require.NoError(t, err)
	for cut := 0; cut <= len(data); cut += 13 {
		m := NewMemoryStore()
		require.NoError(t, m.replay(data[:cut]))
		whole := 0
		for _, e := range ends {
			if int64(cut) >= e {
				whole++
			}
		}
		assert.Len(t, m.legs, whole)
	}
}

func TestStoreRefusesWhatItCanNotRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, storeFile), []byte("{\"id\":\"a\",\"done\":true}\nnonsense\n{\"id\":\"b\",\"done\":true}\n"), 0o600))
	_, err := OpenStore(dir, 0)
	assert.ErrorContains(t, err, "line 2")
	assert.ErrorContains(t, err, "move the file away")
	require.NoError(t, os.Remove(filepath.Join(dir, storeFile)))
	s, err := OpenStore(dir, 0)
	require.NoError(t, err, "the lock was given free")
	require.NoError(t, s.Close())
}

func TestAStoreThatFailedWritesNoMore(t *testing.T) {
	s, err := OpenStore(t.TempDir(), 0)
	require.NoError(t, err)
	require.NoError(t, s.file.Close())
	assert.ErrorContains(t, s.append(line{ID: "a", Done: true}), "free the disk")
	assert.ErrorContains(t, s.append(line{ID: "b", Done: true}), "free the disk")
	assert.False(t, s.seen("a"), "what is not durable is not known")
	_, err = newRunner(t, s, &sink{}, nil).Offer(start, decisions(100))
	assert.Error(t, err, "so offsets are not committed")
}

func FuzzStore(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\",\"at\":1,\"done\":true}\n"))
	f.Add([]byte("{\"id\":\"a\",\"leg\":null}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) { _ = NewMemoryStore().replay(b) })
}
