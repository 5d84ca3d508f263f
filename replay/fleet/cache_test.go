package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLRUAgainstAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, capacity := range []int{0, 1, 2, 7, 30, 50} {
		l, list := newLRU(capacity), []int32{}
		for range 600 {
			id := int32(rng.IntN(60))
			gone, added := l.use(id)
			was := slices.Index(list, id)
			require.Equal(t, was < 0 && capacity > 0, added)
			if was >= 0 {
				list = slices.Delete(list, was, was+1)
			}
			list = append(list, id)
			want := int32(-1)
			if len(list) > capacity {
				want, list = list[0], list[1:]
			}
			require.Equal(t, want, gone)
			var got []int32
			for _, id := range l.contents(&numbering{}) {
				got = append(got, int32(id))
			}
			require.True(t, slices.Equal(list, got), "%v, want %v", got, list)
		}
	}
}

func TestFindAgainstCounting(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	c := newCaches(&Config{Workers: 5, WorkerBlocks: 20, StoreBlocks: 25}, 40)
	for range 1_500 {
		c.hold(int32(rng.IntN(5)), int32(rng.IntN(12)))
		blocks := make([]int32, rng.IntN(6))
		for i := range blocks {
			blocks[i] = int32(rng.IntN(12))
		}
		run := func(holds func(int32) bool) int {
			for i, b := range blocks {
				if !holds(b) {
					return i
				}
			}
			return len(blocks)
		}
		got := c.find(blocks, 3)
		best, who := 0, c.all()
		for w := range 5 {
			n := run(func(b int32) bool { return c.workers[w].slots.get(b) >= 0 })
			switch {
			case n > best:
				best, who = n, 1<<w
			case n == best && n > 0:
				who |= 1 << w
			}
			if w == 3 {
				require.Equal(t, n, got.home)
			}
		}
		require.Equal(t, best, got.best)
		if best > 0 {
			require.Equal(t, who, got.holders)
		}
		require.Equal(t, run(func(b int32) bool { return c.store.slots.get(b) >= 0 }), got.store)
	}
}

func TestLadder(t *testing.T) {
	points := []Point{{128, 0.04555}, {256, 0.04743}, {512, 0.05899}, {1024, 0.06579}, {32768, 0.71797}}
	l, err := newLadder(points)
	require.NoError(t, err)
	for _, p := range points {
		require.InDelta(t, p.Seconds, l.at(p.Tokens), 1e-12)
	}
	last := l.at(0)
	require.Positive(t, last)
	for n := 16.0; n < 200_000; n *= 1.01 {
		require.GreaterOrEqual(t, l.at(n), last, "%v tokens", n)
		last = l.at(n)
	}
	require.InEpsilon(t, 2.143546925, l.at(65536)/l.at(32768), 1e-9, "2^1.1")
	require.InDelta(t, l.at(3000)-l.at(1000)+l.at(0), l.seconds(2000, 1000), 1e-12)
	require.Zero(t, l.seconds(0, 1000))
}
