package replay

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
)

// TestKillStopsLegsUnderWayWithinASecond: whichever way the switch is set, what the
// executor runs is cut short, and counted.
func TestKillStopsLegsUnderWayWithinASecond(t *testing.T) {
	ways := map[string]func(r *Runner, file string) error{
		"file":     func(_ *Runner, file string) error { return os.WriteFile(file, nil, 0o600) },
		"endpoint": func(r *Runner, _ string) error { put(r, KillPath+"?why=noisy"); return nil },
		"call":     func(r *Runner, _ string) error { return r.Kill("SIGUSR1") },
	}
	for name, kill := range ways {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kill")
			synctest.Test(t, func(t *testing.T) {
				var killed time.Time
				var took []time.Duration
				r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.KillFile, c.Concurrency = file, 3 })
				began := make(chan struct{}, 3)
				ex := &executetest.Fake{Block: func(ctx context.Context, _ execute.Leg) error {
					began <- struct{}{}
					<-ctx.Done()
					r.mu.Lock()
					defer r.mu.Unlock()
					took = append(took, time.Since(killed))
					return ctx.Err()
				}}
				done := make(chan error, 1)
				go func() { done <- r.Run(t.Context(), &log{parts: decisions(200)}, ex) }()
				for range 3 {
					<-began
				}
				assert.Equal(t, 3, r.Stats().UnderWay)
				killed = time.Now()
				require.NoError(t, kill(r, file))
				require.NoError(t, <-done)
				require.Len(t, took, 3)
				for _, d := range took {
					assert.LessOrEqual(t, d, time.Second)
				}
				s := r.Stats()
				assert.NotEmpty(t, s.Killed)
				assert.Equal(t, s.Drawn, s.Dropped["killed"])
				assert.Zero(t, s.Executed)
				assert.Len(t, ex.Cleaned(), 3)
				assert.Positive(t, s.Legs.GPUSeconds, "what was cut short has spent")
			})
		})
	}
}

func put(r *Runner, url string) {
	r.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", url, nil))
}

// TestTheSwitchIsOne: set by one way, it is off by another, and holds over a restart.
func TestTheSwitchIsOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kill")
	with := func(c *Config) { c.KillFile = file }
	r := newRunner(t, NewMemoryStore(), &sink{}, with)
	require.NoError(t, r.Kill("too loud"))
	assert.Equal(t, "too loud", newRunner(t, NewMemoryStore(), &sink{}, with).Killed(), "after a restart")
	require.NoError(t, os.Remove(file))
	assert.Empty(t, r.Killed(), "by removing the file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Contains(t, r.Killed(), file)
	require.NoError(t, r.Resume())
	assert.Empty(t, r.Killed())
	assert.NoFileExists(t, file)
	require.NoError(t, r.Resume(), "twice")
}

func TestASwitchThatCanNotBeKeptSaysSo(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.KillFile = filepath.Join(t.TempDir(), "no", "such", "dir") })
	assert.ErrorContains(t, r.Kill("x"), "restart")
	assert.Equal(t, "x", r.Killed(), "it holds all the same")
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, httptest.NewRequest("PUT", KillPath, nil))
	assert.Equal(t, 500, rec.Code)
	assert.Contains(t, rec.Body.String(), "restart")
	require.NoError(t, r.Resume())
	assert.Empty(t, r.Killed())
}
