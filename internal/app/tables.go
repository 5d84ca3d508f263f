package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
)

// ClickHouse is which database; an empty DSN is the embedded one, where the
// command has one.
type ClickHouse struct {
	DSN        string `koanf:"dsn" secret:"true"` // of several shards: a list, parted by commas
	Cluster    string `koanf:"cluster"`           // name in the servers' remote_servers; several shards need it
	Replicated bool   `koanf:"replicated"`        // make tables Replicated, ON CLUSTER
}

// Validate says what is wrong and what to write instead.
func (c ClickHouse) Validate() error {
	switch {
	case c.sharded() && c.Cluster == "":
		return errors.New("clickhouse.dsn names several shards: give --clickhouse-cluster the name that they have in the servers' remote_servers")
	case c.Replicated && c.Cluster == "":
		return errors.New("clickhouse.replicated needs the name of the cluster: give --clickhouse-cluster too")
	case c.Cluster != "" && c.DSN == "":
		return errors.New("clickhouse.cluster is set without servers: give --clickhouse their addresses")
	case c.Cluster != "" && !c.sharded() && !c.Replicated:
		return errors.New("clickhouse.cluster is set, and clickhouse.dsn names one server: give the addresses of all shards, parted by commas, or set clickhouse.replicated for one shard of several replicas")
	}
	return nil
}

func (c ClickHouse) sharded() bool { return len(clickhouse.Split(c.DSN)) > 1 }

func (c ClickHouse) shards() migrate.Sharded {
	return migrate.Sharded{DSN: c.DSN, Cluster: c.Cluster, Replicated: c.Replicated}
}

// pending is what up would do.
func (c ClickHouse) pending(ctx context.Context) ([]migrate.Step, error) {
	if c.sharded() {
		return c.shards().Pending(ctx)
	}
	conn, err := clickhouse.Open(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return migrate.Pending(ctx, conn)
}

// up makes the tables, or brings them up to date, and returns what that took.
func (c ClickHouse) up(ctx context.Context, keep migrate.Retention) (done []migrate.Step, err error) {
	if c.sharded() {
		done, err = c.shards().Up(ctx)
		if err == nil && keep != (migrate.Retention{}) {
			err = c.shards().SetRetention(ctx, keep)
		}
		return done, tablesOf(err)
	}
	conn, err := clickhouse.Open(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if c.Replicated {
		done, err = migrate.UpOn(ctx, conn, c.Cluster)
	} else {
		done, err = migrate.Up(ctx, conn)
	}
	if err == nil && keep != (migrate.Retention{}) {
		err = migrate.SetRetention(ctx, conn, keep)
	}
	return done, tablesOf(err)
}

func tablesOf(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tables of ClickHouse: %w", err)
}

// connect brings the tables up to date and connects to them.
func (b *Backend) connect(ctx context.Context, s *Settings) error {
	at := s.ClickHouse
	at.DSN = b.DSN
	if _, err := at.up(ctx, s.Retention); err != nil {
		return err
	}
	var err error
	if b.Conn, err = clickhouse.Open(ctx, b.DSN); err != nil || !at.sharded() {
		return err
	}
	b.shards, err = clickhouse.OpenEach(ctx, b.DSN, clickhouse.LocalDatabase(b.Conn.Database()))
	return err
}

// local are connections to the shards' own tables, none where there is one shard.
func (b *Backend) local() (conns []driver.Conn) {
	for _, c := range b.shards {
		conns = append(conns, c)
	}
	return conns
}

// Migrate brings the tables up to date, and returns what that took; with dry, what
// it would take.
func Migrate(ctx context.Context, s *Settings, dry bool) ([]migrate.Step, error) {
	switch {
	case s.ClickHouse.DSN == "":
		return nil, errNoClickHouse
	case dry:
		return s.ClickHouse.pending(ctx)
	}
	return s.ClickHouse.up(ctx, s.Retention)
}
