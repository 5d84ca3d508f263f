package otlp

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowly gives its bytes in small pieces, and lets others run between.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), 8<<10)]) }

// Far more senders than there is memory for get through: none holds what another
// of those that wait needs.
func TestManyRequestsDoNotHoldEachOtherUp(t *testing.T) {
	b := newBudget(8<<20, time.Minute)
	var all sync.WaitGroup
	for i := range 200 {
		size := []int{1 << 10, 100 << 10, 300 << 10, 900 << 10}[i%4]
		announced := size * (i / 4 % 2) // every other group does not say
		all.Go(func() {
			h := hold{budget: b}
			defer h.release()
			body, f := h.readAll(context.Background(), slowly{bytes.NewReader(make([]byte, size))}, nil, announced, 1<<20)
			if f != nil || len(body) != size {
				t.Errorf("%d bytes of %d: %v", len(body), size, f)
			}
		})
	}
	all.Wait()
	require.Zero(t, b.used.Load())
	for _, r := range b.rooms {
		require.True(t, r.TryAcquire(r.size), "all memory is given back")
	}
}

func TestGrown(t *testing.T) {
	for _, c := range []struct{ size, announced, want int }{
		{0, 0, tiny}, {0, 100 << 10, tiny}, {tiny, 0, firstReserve}, {tiny, 100 << 10, firstReserve}, {firstReserve, 100 << 10, 100<<10 + 1}, {firstReserve, 0, middle}, {firstReserve, 5 << 20, middle},
		{middle, 5 << 20, 5<<20 + 1}, {middle, 0, large}, {5<<20 + 1, 5 << 20, 1<<63 - 2}, {100<<10 + 1, 100 << 10, middle},
	} {
		require.Equal(t, c.want, grown(c.size, c.announced), c)
	}
}
