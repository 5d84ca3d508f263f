package replay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
)

// keeper is an executor with a namespace.
type keeper struct {
	executetest.Fake
	busy    int // times that it is not available
	refuses error
	waits   bool
	stocked int
}

func (k *keeper) Stock(ctx context.Context, model string, sizes []int64) ([]execute.Stocked, error) {
	if k.waits {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if k.busy > 0 {
		k.busy--
		return nil, execute.ErrUnavailable
	}
	k.stocked += len(sizes)
	out := make([]execute.Stocked, len(sizes))
	for i, n := range sizes {
		out[i] = execute.Stocked{Worker: "w", Tokens: n, Cost: execute.Cost{GPUSeconds: 2}}
	}
	return out, k.refuses
}

func (k *keeper) Namespaces() []execute.Namespace {
	return []execute.Namespace{{Tier: "disk", Sizes: []int64{1, 2}, Bytes: 3, Quota: 4}}
}

// TestTheNamespaceIsBuiltBeforeLegs: it waits for quiet engines, is charged, and
// reported; where it can not be built legs run all the same.
func TestTheNamespaceIsBuiltBeforeLegs(t *testing.T) {
	for name, k := range map[string]*keeper{"at once": {}, "busy a while": {busy: 5}, "refused": {refuses: execute.ErrRefused}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parts := decisions(40)
				for _, p := range parts {
					p.StartNanos = time.Now().UnixNano()
				}
				r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Stock = Stocking{Model: "m", Sizes: []int64{512, 1024}} })
				k.Fail = func(execute.Leg) error {
					assert.Equal(t, 2, k.stocked, "before any leg")
					return nil
				}
				require.NoError(t, r.Run(t.Context(), &log{parts: parts}, k))
				s := r.Stats()
				assert.Equal(t, int64(2), s.Stocked)
				assert.Equal(t, s.Drawn, s.Emitted)
				legs := 0.0
				for _, id := range s.Completion {
					legs += float64(id.Executed)
				}
				assert.Greater(t, s.Legs.GPUSeconds, 4.0)
				assert.Equal(t, k.Namespaces(), r.Status().Namespaces)
				assert.Positive(t, legs)
			})
		})
	}
}

func TestAKillEndsTheBuilding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Stock = Stocking{Sizes: []int64{512}} })
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context(), &log{parts: decisions(40)}, &keeper{waits: true}) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Kill("enough"))
		synctest.Wait()
		assert.Zero(t, r.Stats().UnderWay)
		require.NoError(t, <-done)
		assert.LessOrEqual(t, time.Since(began), stockPatience+2*time.Second)
		assert.Equal(t, r.Stats().Drawn, r.Stats().Dropped["killed"])
	})
}
