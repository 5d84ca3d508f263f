// Package migrate brings a ClickHouse database to the tables of schema/ddl and
// sets how long their rows are kept.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
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
// each: objects that are missing, then changes to those that an earlier kvwhatif
// made. It can be run at any time and by several processes at once: each
// statement can be repeated without harm. It returns what it did.
func Up(ctx context.Context, conn driver.Conn) (done []Step, err error) {
	return current().apply(ctx, conn, "")
}

// UpOn is Up for servers with replicas, under the name of their cluster in the
// servers' remote_servers: every statement is run ON CLUSTER, and tables are
// Replicated, at the servers' default path, by their macros shard and replica.
func UpOn(ctx context.Context, conn driver.Conn, cluster string) (done []Step, err error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	return current().apply(ctx, conn, cluster)
}

// Pending is what Up would do. It changes nothing.
func Pending(ctx context.Context, conn driver.Conn) ([]Step, error) {
	have, err := recorded(ctx, conn)
	if err != nil {
		return nil, err
	}
	return current().plan(have)
}

func checkCluster(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("the ClickHouse cluster's name %q is not of letters, digits, _ and -", name)
	}
	return nil
}

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	create      = regexp.MustCompile(`^((?:\s|--.*\n)*(?:CREATE TABLE IF NOT EXISTS|CREATE VIEW IF NOT EXISTS|CREATE OR REPLACE VIEW|CREATE OR REPLACE TABLE|ALTER TABLE|CREATE DATABASE IF NOT EXISTS) \x60?\w+\x60?)`)
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

func (d definitions) apply(ctx context.Context, conn driver.Conn, cluster string) (done []Step, err error) {
	if err := conn.Exec(ctx, on(cluster, recordTable)); err != nil {
		return nil, fmt.Errorf("create schema_migrations: %w", err)
	}
	have, err := recorded(ctx, conn)
	if err != nil {
		return nil, err
	}
	steps, err := d.plan(have)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if err := run(ctx, conn, s, cluster); err != nil {
			return done, err
		}
		done = append(done, s)
	}
	return done, nil
}

// record is what the database says of one version.
type record struct{ name, digest string }

// recorded is empty for a database that was never migrated.
func recorded(ctx context.Context, conn driver.Conn) (map[int]record, error) {
	var there uint8
	if err := conn.QueryRow(ctx, "EXISTS TABLE schema_migrations").Scan(&there); err != nil {
		return nil, fmt.Errorf("look for schema_migrations: %w", err)
	}
	if there == 0 {
		return nil, nil
	}
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
