package load

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// TestNoOffsetIsReadyBeforeItsMinutesAreMade plays random touches and
// recomputations and keeps its own account of what rollups hold.
func TestNoOffsetIsReadyBeforeItsMinutesAreMade(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		m, now := newMinutes(), time.Unix(1e9, 0)
		touched := [][]int64{}              // by offset
		held := map[int64]int{}             // minute → offsets below it are in its rollup
		next, started := 0, map[int64]int{} // committed; what a recomputation saw
		for range 200 {
			now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			switch r.IntN(3) {
			case 0:
				var list []int64
				for range r.IntN(3) {
					list = append(list, int64(r.IntN(5))*60)
				}
				touched = append(touched, list)
				m.touch(cover{minutes: list, offsets: map[int]kafka.Message{0: {Offset: int64(len(touched) - 1)}}})
			case 1:
				must := uint64(0)
				if r.IntN(4) == 0 {
					must = m.last()
				}
				due, through := m.due(now, must, 3)
				for _, at := range due {
					started[at] = len(touched)
				}
				if r.IntN(2) == 0 && len(due) > 0 { // touched while it is made
					touched = append(touched, due[:1])
					m.touch(cover{minutes: due[:1], offsets: map[int]kafka.Message{0: {Offset: int64(len(touched) - 1)}}})
				}
				m.made(due, through, now, time.Duration(r.IntN(700))*time.Millisecond, 5*time.Second)
				for _, at := range due {
					held[at] = started[at]
				}
			case 2:
				for _, c := range m.ready() {
					require.EqualValues(t, next, c.offsets[0].Offset, "offsets come in order")
					for _, at := range touched[next] {
						require.Greater(t, held[at], next, "offset %d of minute %d, seed %d", next, at, seed)
					}
					next++
				}
			}
		}
		due, through := m.due(now, m.last(), 1000)
		m.made(due, through, now, 0, 0)
		require.Len(t, m.ready(), len(touched)-next, "all is ready in the end")
		require.Zero(t, m.pending())
	}
}

func TestAMinuteIsMadeAgainTenTimesItsCostLater(t *testing.T) {
	m, now := newMinutes(), time.Unix(1e9, 0)
	touch := func() { m.touch(cover{minutes: []int64{60}}) }
	is := func(after time.Duration, must uint64) bool {
		due, _ := m.due(now.Add(after), must, 10)
		return len(due) == 1
	}
	touch()
	require.True(t, is(0, 0), "the first time at once")
	m.made([]int64{60}, m.last(), now, 2*time.Second, 5*time.Second)
	require.False(t, is(time.Hour, 0), "not unless it is touched")
	touch()
	require.False(t, is(19*time.Second, 0))
	require.True(t, is(20*time.Second, 0))
	require.True(t, is(time.Second, m.last()), "flushed before that")
}

// TestCoversAreBounded: many rounds while nothing can be made again are few
// covers, and all that they cover comes out.
func TestCoversAreBounded(t *testing.T) {
	m := newMinutes()
	steps := 0
	for i := range 3 * mostCovers {
		c := cover{minutes: []int64{int64(i%70) * 60}}
		if i%2 == 0 {
			c.offsets = map[int]kafka.Message{i % 3: {Offset: int64(i)}}
		} else {
			c.after = func(context.Context) error { steps++; return nil }
		}
		m.touch(c)
	}
	require.LessOrEqual(t, len(m.covers), mostCovers)
	due, through := m.due(time.Now(), m.last(), 69)
	m.made(due, through, time.Now(), 0, 0)
	require.Less(t, len(m.ready()), 70, "one minute is missing")
	due, through = m.due(time.Now(), m.last(), 100)
	m.made(due, through, time.Now(), 0, 0)
	offsets := map[int]int64{}
	for _, c := range m.ready() {
		for p, o := range c.offsets {
			offsets[p] = o.Offset
		}
		if c.after != nil {
			require.NoError(t, c.after(t.Context()))
		}
	}
	require.Equal(t, map[int]int64{0: 3*mostCovers - 6, 1: 3*mostCovers - 2, 2: 3*mostCovers - 4}, offsets)
	require.InDelta(t, 3*mostCovers/2, steps, 40, "but for those of covers that were ready before")
}
