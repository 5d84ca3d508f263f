package load

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema"
)

// retentionEvery is how often the tables are asked how long they keep rows, for
// an operator may change it at any time.
const retentionEvery = time.Minute

// retention is how long tables keep rows, from the rows' own time. ClickHouse
// drops an older row at its next merge without a word, so such parts are refused
// before that. Its methods may be called at once.
type retention struct {
	requests, replays atomic.Int64 // nanoseconds; 0: for ever, or not known
}

// oldest is the start before which a part of the kind has no place, Unix
// nanoseconds. Parts that join a request's row are kept as long as requests.
func (r *retention) oldest(kind schema.Kind, now time.Time) int64 {
	keep := r.of(kind).Load()
	if keep == 0 {
		return 0
	}
	return now.UnixNano() - keep
}

func (r *retention) of(kind schema.Kind) *atomic.Int64 {
	if kind == schema.KindReplay {
		return &r.replays
	}
	return &r.requests
}

// tooOld is the reason of a dead letter for a part that started at an instant.
func (r *retention) tooOld(kind schema.Kind, start int64) error {
	table, setting := "requests", "retention.requests"
	if kind == schema.KindReplay {
		table, setting = "replays", "retention.legs"
	}
	return fmt.Errorf("older than retention: it started at %s, and table %s keeps %s: to have it, raise %s and retry this dead letter",
		time.Unix(0, start).UTC().Format(time.RFC3339), table, time.Duration(r.of(kind).Load()), setting)
}

var ttlDays = regexp.MustCompile(`TTL .*toIntervalDay\((\d+)\)`)

// read asks the tables; on a shard, those of its own database have the rows.
func (r *retention) read(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.Query(ctx, `SELECT name, engine_full FROM system.tables
WHERE database IN (currentDatabase(), concat(currentDatabase(), ?)) AND name IN ('requests', 'replays')`, clickhouse.LocalDatabase(""))
	if err != nil {
		return fmt.Errorf("read the retention of the tables: %w", clickhouse.Classify(err))
	}
	defer rows.Close()
	found := map[string]int64{}
	for rows.Next() {
		var table, engine string
		if err := rows.Scan(&table, &engine); err != nil {
			return fmt.Errorf("read the retention of the tables: %w", clickhouse.Classify(err))
		}
		if m := ttlDays.FindStringSubmatch(engine); m != nil {
			days, _ := strconv.ParseInt(m[1], 10, 32) // digits
			found[table] = days * nanosADay
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the retention of the tables: %w", clickhouse.Classify(err))
	}
	r.requests.Store(found["requests"])
	r.replays.Store(found["replays"])
	return nil
}
