package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/sample"
)

// FuzzStoreFile: whatever a file holds, it is refused with an error or read; what
// was read is kept by a compaction.
func FuzzStoreFile(f *testing.F) {
	f.Add([]byte(`{"id":"ab","at":1,"leg":{"id":"ab","kind":"rejected","of":"00000000000000000000000000000001","of_span":"0000000000000002","path":"fetch","candidate":{"path":"fetch"}}}` + "\n"))
	f.Add([]byte(`{"id":"books","at":1,"books":{"ledger":{"workers":{"w":{"tokens":1,"at":2}},"production":{},"legs":{}},"tallies":[{"size":1,"leg":"control","intended":2}]}}` + "\n" + `{"id":"ab","at":1,"done":true,"why":"killed"}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewMemoryStore()
		if s.replay(data) != nil {
			return
		}
		legs, unsent := s.pending()
		path := filepath.Join(t.TempDir(), storeFile)
		require.NoError(t, s.compact(path))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		again := NewMemoryStore()
		require.NoError(t, again.replay(raw))
		legs2, unsent2 := again.pending()
		require.Equal(t, []int{len(legs), len(unsent)}, []int{len(legs2), len(unsent2)})
		require.Equal(t, s.Outcomes(), again.Outcomes())
	})
}

// FuzzPlans: a history is refused with an error, or gives a plan or none at any time.
func FuzzPlans(f *testing.F) {
	plan, err := testPlanOf(0.2)
	require.NoError(f, err)
	raw, err := json.Marshal(sample.NewHistory(plan).Entries())
	require.NoError(f, err)
	f.Add(raw, int64(1))
	f.Add([]byte(`[{"since_unix_nanos":5,"params":{"version":1,"rate":1e-300}}]`), int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, at int64) {
		path := filepath.Join(t.TempDir(), PlansFile)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		entries, err := ReadPlans(path)
		if err != nil {
			return
		}
		h, err := plan.RestoreHistory(entries)
		if err != nil {
			return
		}
		if p := h.At(at); p != nil {
			for _, part := range decisions(5) {
				for _, d := range p.Draw(part) {
					require.True(t, d.Inclusion > 0 && d.Inclusion <= 1)
				}
			}
		}
	})
}
