package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/retry"
)

var errAway, errWrong = errors.New("away"), errors.New("wrong")

func TestBoundDoublesUpToMost(t *testing.T) {
	p := retry.Policy{First: 100 * time.Millisecond, Most: time.Second}
	for failures, want := range map[int]time.Duration{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 6: 1000, 1 << 30: 1000} {
		require.Equal(t, want*time.Millisecond, p.Bound(failures), failures)
	}
	require.Equal(t, time.Second, retry.Policy{First: time.Second}.Bound(9))
}

func TestSpreadIsHalfToWhole(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 200 {
		d := retry.Spread(time.Second)
		require.GreaterOrEqual(t, d, time.Second/2)
		require.LessOrEqual(t, d, time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 100)
	require.Zero(t, retry.Spread(0))
}

func TestDo(t *testing.T) {
	away := func(err error) bool { return errors.Is(err, errAway) }
	for name, c := range map[string]struct {
		errs          []error // of each attempt; the last is repeated
		within        time.Duration
		want          error
		calls, noted  int
		atLeast, most time.Duration
	}{
		"first time":           {[]error{nil}, time.Hour, nil, 1, 0, 0, 0},
		"third time":           {[]error{errAway, errAway, nil}, time.Hour, nil, 3, 2, 1500 * time.Millisecond, 3 * time.Second},
		"not to be mended":     {[]error{errAway, errWrong}, time.Hour, errWrong, 2, 1, 500 * time.Millisecond, time.Second},
		"its context ended":    {[]error{errAway}, 300 * time.Millisecond, errAway, 1, 1, 300 * time.Millisecond, 300 * time.Millisecond},
		"its context was over": {[]error{errAway}, -1, errAway, 1, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				calls, noted, began := 0, 0, time.Now()
				err := retry.Do(ctx, retry.Policy{First: time.Second, Most: 4 * time.Second}, away, func(error) { noted++ }, func(context.Context) error {
					calls++
					return c.errs[min(calls, len(c.errs))-1]
				})
				require.Equal(t, c.want, err)
				require.Equal(t, []int{c.calls, c.noted}, []int{calls, noted})
				took := time.Since(began)
				require.GreaterOrEqual(t, took, c.atLeast)
				require.LessOrEqual(t, took, c.most)
			})
		})
	}
}
