// Package migrate brings a ClickHouse database to the tables of schema/ddl and
// sets how long their rows are kept.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// ErrNewer is wrapped by Up's error when the database was made by a newer
// kvwhatif, whose tables this one does not know.
var ErrNewer = errors.New("the database is newer than this kvwhatif")

// ErrChanged is wrapped by Up's error when an object was applied in another
// form than this kvwhatif has under the same number.
var ErrChanged = errors.New("the database was made from other table definitions")

const recordTable = `CREATE TABLE IF NOT EXISTS schema_migrations
(
    version UInt32,
    name    String,
    digest  String,
    applied DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(applied)
ORDER BY version`

// Up applies what the database of conn does not have yet, in order, and records
// each. It can be run at any time and by several processes at once: each
// statement can be repeated without harm. It returns how many it applied.
func Up(ctx context.Context, conn driver.Conn) (applied int, err error) {
	return apply(ctx, conn, ddl.Objects(), "")
}

// UpOn is Up for a cluster of one shard and several replicas, under the name
// that it has in the servers' remote_servers: every object is made ON CLUSTER,
// and tables are Replicated, at the servers' default path. Several shards are
// not supported: the rollups of a minute are made from one table.
func UpOn(ctx context.Context, conn driver.Conn, cluster string) (applied int, err error) {
	if !clusterName.MatchString(cluster) {
		return 0, fmt.Errorf("the ClickHouse cluster's name %q is not of letters, digits, _ and -", cluster)
	}
	return apply(ctx, conn, ddl.Objects(), cluster)
}

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	create      = regexp.MustCompile(`(CREATE (?:TABLE|VIEW) IF NOT EXISTS \w+)`)
	engine      = regexp.MustCompile(`ENGINE = (\w*MergeTree)`)
)

// on is a statement for a cluster; without one it is the statement itself.
func on(cluster, sql string) string {
	if cluster == "" {
		return sql
	}
	sql = create.ReplaceAllString(sql, "$1 ON CLUSTER '"+cluster+"'")
	return engine.ReplaceAllString(sql, "ENGINE = Replicated$1")
}

func apply(ctx context.Context, conn driver.Conn, objects []ddl.Object, cluster string) (applied int, err error) {
	if err := conn.Exec(ctx, on(cluster, recordTable)); err != nil {
		return 0, fmt.Errorf("create schema_migrations: %w", err)
	}
	have, err := recorded(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := check(have, objects); err != nil {
		return 0, err
	}
	for _, o := range objects {
		if _, done := have[o.Version]; done {
			continue
		}
		if err := one(ctx, conn, o, cluster); err != nil {
			return applied, err
		}
		applied++
	}
	return applied, nil
}

// record is what the database says of one version.
type record struct{ name, digest string }

func recorded(ctx context.Context, conn driver.Conn) (map[int]record, error) {
	rows, err := conn.Query(ctx, "SELECT version, name, digest FROM schema_migrations FINAL")
	if err != nil {
		return nil, fmt.Errorf("read schema_migrations: %w", err)
	}
	defer rows.Close()
	have := map[int]record{}
	for rows.Next() {
		var version uint32
		var r record
		if err := rows.Scan(&version, &r.name, &r.digest); err != nil {
			return nil, fmt.Errorf("read schema_migrations: %w", err)
		}
		have[int(version)] = r
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read schema_migrations: %w", err)
	}
	return have, nil
}

func check(have map[int]record, objects []ddl.Object) error {
	for version, r := range have {
		if version > len(objects) {
			return fmt.Errorf("%w: it has %04d_%s, this one knows %d objects: use the newer kvwhatif, or another database",
				ErrNewer, version, r.name, len(objects))
		}
		if o := objects[version-1]; r.digest != o.Digest() {
			return fmt.Errorf("%w: %04d_%s was applied in another form: use the kvwhatif that made it, or another database or directory",
				ErrChanged, version, r.name)
		}
	}
	return nil
}

func one(ctx context.Context, conn driver.Conn, o ddl.Object, cluster string) error {
	if err := conn.Exec(ctx, on(cluster, o.SQL)); err != nil {
		return fmt.Errorf("apply %04d_%s: %w", o.Version, o.Name, err)
	}
	err := conn.Exec(ctx, "INSERT INTO schema_migrations (version, name, digest) SETTINGS async_insert = 0 VALUES (?, ?, ?)",
		uint32(o.Version), o.Name, o.Digest())
	if err != nil {
		return fmt.Errorf("record %04d_%s: %w", o.Version, o.Name, err)
	}
	return nil
}

// Retention is how many days rows are kept, counted from their own time. A zero
// leaves a table as it is; the tables are made with the values in brackets.
type Retention struct {
	Requests int `koanf:"requests"` // raw requests [30]
	Legs     int `koanf:"legs"`     // transfers, replays and worst [90]
	Rollups  int `koanf:"rollups"`  // slices, estimates and verdicts [400]
}

// Validate refuses a retention under which rollups would go before the rows
// that they are made from.
func (r Retention) Validate() error {
	if r.Requests < 0 || r.Legs < 0 || r.Rollups < 0 {
		return errors.New("retention: days can not be negative")
	}
	if r.Rollups > 0 && r.Rollups < r.Requests {
		return fmt.Errorf("retention: rollups (%d days) must outlive requests (%d days)", r.Rollups, r.Requests)
	}
	return nil
}

// SetRetention alters the TTL of the tables; it is cheap where nothing changes.
func SetRetention(ctx context.Context, conn driver.Conn, r Retention) error {
	if err := r.Validate(); err != nil {
		return err
	}
	for _, t := range []struct {
		table, time string
		days        int
	}{
		{"requests", "minute", r.Requests},
		{"transfers", "toDateTime(start)", r.Legs},
		{"replays", "toDateTime(start)", r.Legs},
		{"worst", "minute", r.Legs},
		{"slices", "minute", r.Rollups},
		{"estimates", "block", r.Rollups},
		{"verdicts", "toDateTime(at)", r.Rollups},
	} {
		if t.days == 0 {
			continue
		}
		alter := fmt.Sprintf("ALTER TABLE %s MODIFY TTL %s + INTERVAL %d DAY SETTINGS materialize_ttl_after_modify = 0", t.table, t.time, t.days)
		if err := conn.Exec(ctx, alter); err != nil {
			return fmt.Errorf("set retention of %s to %d days: %w", t.table, t.days, err)
		}
	}
	return nil
}
