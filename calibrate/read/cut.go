package read

import (
	"context"
	_ "embed"
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

//go:embed cut.sql
var cutSQL string

// Cut gives the instant (Unix nanoseconds) by which a share of the requests of
// [from, until) had been decided, 0 to 1: where what is fitted ends and what is
// held out begins. It goes by requests and not by the clock, for traffic may have
// begun late in the window. Without requests n is 0 and the instant is until.
func Cut(ctx context.Context, conn driver.Conn, f Filter, from, until int64, share float64) (at int64, n uint64, err error) {
	if err := checkWindow(from, until); err != nil {
		return 0, 0, fmt.Errorf("cut the window: %w", err)
	}
	row := conn.QueryRow(ctx, cutSQL, append(f.arguments(from, until), ch.Named("share", share))...)
	if err := row.Scan(&at, &n); err != nil {
		return 0, 0, fmt.Errorf("cut the window: %w", clickhouse.Explain(err))
	}
	if n == 0 {
		at = until
	}
	return at, n, nil
}
