package replay

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// log is a Source that begins again where it was acknowledged.
type log struct {
	mu    sync.Mutex
	parts []*schema.Part
	read  int
	acked int
}

func (s *log) Next(ctx context.Context) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	if s.read >= len(s.parts) {
		return Batch{}, io.EOF
	}
	from, to := s.read, min(s.read+20, len(s.parts))
	s.read = to
	return Batch{Parts: s.parts[from:to], Ack: func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acked = to
		return nil
	}}, nil
}

func (s *log) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = s.acked
}

func TestRunToTheEnd(t *testing.T) {
	out, ex := &sink{}, &executetest.Fake{Prep: execute.Cost{GPUSeconds: 0.5}}
	r := newRunner(t, NewMemoryStore(), out, nil)
	require.NoError(t, r.Run(t.Context(), &log{parts: decisions(500)}, ex))
	s := r.Stats()
	assert.Equal(t, s.Drawn, int64(len(out.ids())))
	assert.Len(t, ex.Ran(), len(out.ids()))
	assert.Len(t, ex.Cleaned(), len(out.ids()))
	assert.Greater(t, s.Legs.GPUSeconds, 0.5*float64(s.Drawn), "preparation counts")
}

// TestARestartNeitherRepeatsNorForgets cancels the runner at leg after leg and
// starts it again on the same directory, until nothing is left: each leg drawn
// is emitted once, and runs again only where it was cut short.
func TestARestartNeitherRepeatsNorForgets(t *testing.T) {
	dir, src, out := t.TempDir(), &log{parts: decisions(400)}, &sink{}
	want, err := newRunner(t, NewMemoryStore(), &sink{}, nil).Offer(start, src.parts)
	require.NoError(t, err)
	ran, starts := map[string]int{}, 0
	for done := false; !done; starts++ {
		require.Less(t, starts, 1000)
		store, err := OpenStore(dir, 0)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		left := 7
		var mu sync.Mutex
		ex := &executetest.Fake{Block: func(ctx context.Context, _ execute.Leg) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				cancel()
				return ctx.Err()
			}
			return nil
		}}
		require.NoError(t, newRunner(t, store, out, nil).Run(ctx, src, ex))
		done = ctx.Err() == nil
		cancel()
		for id, n := range ex.Ran() {
			ran[id] += n
		}
		require.NoError(t, store.Close())
		src.restart()
	}
	assert.Greater(t, starts, 3)
	assert.Len(t, out.ids(), len(want))
	for _, l := range want {
		assert.Equal(t, 1, out.ids()[schema.ReplayRequestIDPrefix+l.ID])
		assert.Equal(t, 1, ran[l.ID])
	}
}

// TestWaitingLegsAreFundedByTime: the budget fills while no decision comes.
func TestWaitingLegsAreFundedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, out := time.Now(), &sink{}
		parts := decisions(40)
		for _, p := range parts {
			p.StartNanos = began.UnixNano()
		}
		r, err := New(Config{
			Plan: testPlan(t, 0.5), Emit: out.emit, Limits: budget.Limits{GPURate: 0.1, ByteRate: 1e12, GPUBurst: 1, ByteBurst: 1e12},
		}, NewMemoryStore())
		require.NoError(t, err)
		require.NoError(t, r.Run(t.Context(), &log{parts: parts}, &executetest.Fake{}))
		s := r.Stats()
		assert.Positive(t, s.Drawn)
		assert.Equal(t, s.Drawn, s.Emitted)
		assert.InDelta(t, s.Legs.GPUSeconds, 0.1*time.Since(began).Seconds(), 1.1)
	})
}

// TestTimes holds what waits: an executor and a pipeline that are away, a shut
// gate, a deadline.
func TestTimes(t *testing.T) {
	cases := map[string]struct {
		change  func(*Config)
		fake    func(since func() time.Duration) *executetest.Fake
		collect func(*sink, func() time.Duration)
		dropped string
	}{
		"executor away a minute": {nil, func(since func() time.Duration) *executetest.Fake {
			return &executetest.Fake{Fail: func(execute.Leg) error {
				if since() < time.Minute {
					return execute.ErrUnavailable
				}
				return nil
			}}
		}, nil, ""},
		"gate shut a minute": {func(c *Config) { c.Idle = budget.Idle{MaxGPUQueue: 0.1} }, func(since func() time.Duration) *executetest.Fake {
			return &executetest.Fake{Probed: func(execute.Leg) execute.State {
				return execute.State{GPUQueue: max(0, 60-since().Seconds())}
			}}
		}, nil, ""},
		"executor away past the deadline": {func(c *Config) { c.Limits.MaxAgeNanos = int64(time.Hour) }, func(func() time.Duration) *executetest.Fake {
			return &executetest.Fake{Fail: func(execute.Leg) error { return execute.ErrUnavailable }}
		}, nil, "the executor was not available"},
		"pipeline away a minute": {nil, func(func() time.Duration) *executetest.Fake { return &executetest.Fake{} },
			func(s *sink, since func() time.Duration) {
				s.setFail(true)
				time.Sleep(time.Minute)
				s.setFail(false)
			}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				since := func() time.Duration { return time.Since(began) }
				parts := decisions(40)
				for _, p := range parts {
					p.StartNanos = began.UnixNano()
				}
				out := &sink{}
				r := newRunner(t, NewMemoryStore(), out, c.change)
				var side sync.WaitGroup
				if c.collect != nil {
					side.Go(func() { c.collect(out, since) })
					synctest.Wait()
				}
				require.NoError(t, r.Run(t.Context(), &log{parts: parts}, c.fake(since)))
				side.Wait()
				s := r.Stats()
				require.Positive(t, s.Drawn)
				assert.GreaterOrEqual(t, since(), time.Minute-time.Second)
				if c.dropped == "" {
					assert.Equal(t, s.Drawn, s.Emitted)
					assert.Len(t, out.ids(), int(s.Drawn))
					return
				}
				assert.Positive(t, s.Dropped[c.dropped])
				assert.Zero(t, s.Emitted)
			})
		})
	}
}

func TestAKillStopsLegsThatWait(t *testing.T) {
	r := newRunner(t, NewMemoryStore(), &sink{}, func(c *Config) { c.Concurrency = 1 })
	ex := &executetest.Fake{}
	ex.Block = func(context.Context, execute.Leg) error { r.Kill("enough"); return nil }
	require.NoError(t, r.Run(t.Context(), &log{parts: decisions(200)}, ex))
	s := r.Stats()
	assert.Equal(t, int64(1), s.Executed)
	assert.Equal(t, s.Drawn-1, s.Dropped["killed"])
}
