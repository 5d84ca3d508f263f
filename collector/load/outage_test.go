package load

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// away is a database that can not be reached until an instant.
type away struct {
	driver.Conn
	until time.Time
}

func (a *away) Exec(context.Context, string, ...any) error {
	if time.Now().Before(a.until) {
		return syscall.ECONNREFUSED
	}
	return nil
}

// TestAnOutageIsNoCost lets the database be away for ten minutes while a minute is
// to be made again. It is then made again as soon as ever, and its offsets with it:
// what keeps a minute away is what making it costs, not what waiting for it did.
func TestAnOutageIsNoCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Default(), Options{Conn: &away{until: time.Now().Add(10 * time.Minute)}, Source: &member{}, Dead: &topic{}})
		require.NoError(t, err)
		l.minutes.touch(cover{minutes: []int64{60}})
		require.NoError(t, l.remake(t.Context(), 0, false))
		l.minutes.touch(cover{minutes: []int64{60}})
		due, _ := l.minutes.due(time.Now(), 0, remakeChunk)
		require.Empty(t, due, "it was made a moment ago")
		time.Sleep(l.cfg.RecomputeEvery)
		due, _ = l.minutes.due(time.Now(), 0, remakeChunk)
		require.Equal(t, []int64{60}, due)
	})
}
