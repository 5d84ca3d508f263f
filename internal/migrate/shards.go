package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

// Sharded is a ClickHouse of several shards. Each keeps its own rows in a local
// database (clickhouse.LocalDatabase), by the tables of schema/ddl; the database
// that the addresses name has tables over all shards under the same names.
type Sharded struct {
	DSN        string // a list (clickhouse.Split), one address a shard, in an order that never changes
	Cluster    string // name in remote_servers, of the same shards
	Replicated bool   // tables are Replicated, statements run ON CLUSTER
}

// shards are connections to all shards.
type shards struct {
	Sharded
	name, local string        // databases
	admin       []driver.Conn // to no database of ours
	open        []*clickhouse.Conn
}

// spread are the tables whose rows load puts on the shard of their id, itself: the
// tables over them take no inserts, for these would arrive some time later. All
// others are written through those tables, and are on the first shard.
var spread = []string{"requests", "slices", "worst", "transfers", "replays", "waiting"}

// Up makes the databases, brings every shard's own tables up to date, and then
// those over all. It can be run at any time and by several processes at once. It
// refuses shards that were made in another order or number: rows are found by
// these.
func (s Sharded) Up(ctx context.Context) (done []Step, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	local, err := c.to(ctx, c.local)
	if err != nil {
		return nil, err
	}
	err = c.each(local, func(conn driver.Conn, shard int) error {
		steps, err := current().apply(ctx, conn, s.on())
		done = append(done, named(steps, shard)...)
		return err
	})
	if err != nil {
		return done, err
	}
	over, err := c.to(ctx, c.name)
	if err != nil {
		return done, err
	}
	err = c.each(over, func(conn driver.Conn, shard int) error {
		steps, err := c.over(ctx, conn)
		done = append(done, named(steps, shard)...)
		return err
	})
	if err != nil {
		return done, err
	}
	return done, c.reached(ctx)
}

// Pending is what Up would do to the shards' own tables. It changes nothing.
func (s Sharded) Pending(ctx context.Context) (steps []Step, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	said, err := c.said(ctx, c.admin[0])
	if err != nil {
		return nil, err
	}
	conns := c.admin // which have no tables of ours
	if said != "" {
		if conns, err = c.to(ctx, c.local); err != nil {
			return nil, err
		}
	}
	return steps, c.each(conns, func(conn driver.Conn, shard int) error {
		missing, err := Pending(ctx, conn)
		steps = append(steps, named(missing, shard)...)
		return err
	})
}

// SetRetention is SetRetention on every shard.
func (s Sharded) SetRetention(ctx context.Context, r Retention) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	local, err := c.to(ctx, c.local)
	if err != nil {
		return err
	}
	return c.each(local, func(conn driver.Conn, _ int) error { return SetRetention(ctx, conn, r) })
}

func (s Sharded) connect(ctx context.Context) (*shards, error) {
	if err := checkCluster(s.Cluster); err != nil {
		return nil, err
	}
	name, err := clickhouse.DatabaseOf(clickhouse.Split(s.DSN)[0])
	if err != nil {
		return nil, err
	}
	c := &shards{Sharded: s, name: name, local: clickhouse.LocalDatabase(name)}
	c.admin, err = c.to(ctx, "system")
	return c, err
}

// to connects to a database of every shard.
func (s *shards) to(ctx context.Context, database string) (conns []driver.Conn, err error) {
	opened, err := clickhouse.OpenEach(ctx, s.DSN, database)
	s.open = append(s.open, opened...)
	for _, c := range opened {
		conns = append(conns, c)
	}
	return conns, err
}

func (s *shards) close() {
	for _, c := range s.open {
		c.Close()
	}
}

// each takes a step on shard after shard.
func (s *shards) each(conns []driver.Conn, step func(conn driver.Conn, shard int) error) error {
	for i, conn := range conns {
		if err := step(conn, i); err != nil {
			return fmt.Errorf("shard %d of %d: %w", i+1, len(conns), err)
		}
	}
	return nil
}

func (s Sharded) on() string {
	if s.Replicated {
		return s.Cluster
	}
	return ""
}

func named(steps []Step, shard int) []Step {
	for i := range steps {
		steps[i].Name = fmt.Sprintf("shard %d: %s", shard+1, steps[i].Name)
	}
	return steps
}

// place is what the comment of a shard's database says: where its rows belong.
func (s *shards) place(shard int) string {
	return fmt.Sprintf("kvwhatif shard %d of %d", shard+1, len(s.admin))
}

// prepare makes the databases, and sees that the shards are those that they were.
func (s *shards) prepare(ctx context.Context) error {
	return s.each(s.admin, func(conn driver.Conn, i int) error {
		for _, create := range []string{
			"CREATE DATABASE IF NOT EXISTS " + quote(s.name),
			"CREATE DATABASE IF NOT EXISTS " + quote(s.local) + " COMMENT '" + s.place(i) + "'",
		} {
			if err := conn.Exec(ctx, on(s.on(), create)); err != nil {
				return fmt.Errorf("create its databases: %w", err)
			}
		}
		said, err := s.said(ctx, conn)
		if err == nil && said != s.place(i) {
			err = fmt.Errorf("%w: the address leads to %q: give the addresses of all shards in the order in which they were first given; rows do not move between shards", ErrShards, said)
		}
		return err
	})
}

// ErrShards is wrapped by the error of Up when the shards are not those that the
// rows were spread over.
var ErrShards = errors.New("the shards are not those of this database")

// said is the comment of the shard's database, empty where there is none.
func (s *shards) said(ctx context.Context, conn driver.Conn) (comment string, err error) {
	err = conn.QueryRow(ctx, "SELECT ifNull(any(comment), '') FROM system.databases WHERE name = ?", s.local).Scan(&comment)
	if err != nil {
		return "", fmt.Errorf("look for the database %s: %w", s.local, err)
	}
	return comment, nil
}

// reached sees that the servers' cluster is of the same shards.
func (s *shards) reached(ctx context.Context) error {
	var found []string
	query := fmt.Sprintf("SELECT arraySort(groupArray(comment)) FROM cluster('%s', system.databases) WHERE name = ?", s.Cluster)
	if err := s.admin[0].QueryRow(ctx, query, s.local).Scan(&found); err != nil {
		return fmt.Errorf("ask the shards of the cluster %s in remote_servers: %w", s.Cluster, err)
	}
	want := make([]string, len(s.admin))
	for i := range want {
		want[i] = s.place(i)
	}
	slices.Sort(want)
	if !slices.Equal(want, found) {
		return fmt.Errorf("%w: the cluster %s in remote_servers leads to [%s], the addresses given are %d: list the same shards in both",
			ErrShards, s.Cluster, strings.Join(found, ", "), len(s.admin))
	}
	return nil
}

// over makes what readers see on one server.
func (s *shards) over(ctx context.Context, conn driver.Conn) (done []Step, err error) {
	for _, o := range ddl.Objects() {
		step, current, err := s.overStep(ctx, conn, o)
		if err != nil {
			return done, err
		}
		if current {
			continue
		}
		if err := conn.Exec(ctx, on(s.on(), step.Statements[0])); err != nil {
			return done, fmt.Errorf("%s: %w", step.Name, err)
		}
		done = append(done, step)
	}
	return done, nil
}

// overStep is the statement that makes an object over all shards, and whether it is
// there in this form already.
func (s *shards) overStep(ctx context.Context, conn driver.Conn, o ddl.Object) (step Step, current bool, err error) {
	step.Name = "over all shards: " + o.Name
	if statement, view := strings.CutPrefix(uncommented(o.SQL), "CREATE VIEW IF NOT EXISTS "); view {
		step.Statements = []string{"CREATE OR REPLACE VIEW " + statement}
		current, err = s.sameView(ctx, conn, o.Name)
		return step, current, err
	}
	key := ", 0" // a constant: on the first shard
	if slices.Contains(spread, o.Name) {
		key = ""
	}
	columns, err := s.columns(ctx, conn, s.local, o.Name)
	if err != nil {
		return step, false, err
	}
	have, err := s.columns(ctx, conn, s.name, o.Name)
	step.Statements = []string{fmt.Sprintf("CREATE OR REPLACE TABLE %s\n(%s)\nENGINE = Distributed('%s', %s, %s%s)",
		o.Name, columns, s.Cluster, quote(s.local), quote(o.Name), key)}
	return step, have == columns, err
}

// columns is the list of columns of a table, as a CREATE would have it.
func (s *shards) columns(ctx context.Context, conn driver.Conn, database, table string) (list string, err error) {
	query := "SELECT arrayStringConcat(groupArray(concat('`', name, '` ', type, if(default_kind = '', '', concat(' ', default_kind, ' ', default_expression)))), ', ') FROM " +
		"(SELECT * FROM system.columns WHERE database = ? AND table = ? ORDER BY position)"
	if err := conn.QueryRow(ctx, query, database, table).Scan(&list); err != nil {
		return "", fmt.Errorf("read the columns of %s.%s: %w", database, table, err)
	}
	return list, nil
}

// sameView says whether the view is the same over all shards as on the shard.
func (s *shards) sameView(ctx context.Context, conn driver.Conn, name string) (same bool, err error) {
	query := "SELECT countIf(database = ?) = 1 AND uniqExact(replaceAll(as_select, concat(database, '.'), '')) = 1 FROM system.tables WHERE database IN (?, ?) AND name = ?"
	if err := conn.QueryRow(ctx, query, s.name, s.name, s.local, name).Scan(&same); err != nil {
		return false, fmt.Errorf("read the view %s: %w", name, err)
	}
	return same, nil
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "\\`") + "`" }

// uncommented is a statement without the comment that it begins with.
func uncommented(sql string) string {
	for strings.HasPrefix(sql, "--") {
		_, sql, _ = strings.Cut(sql, "\n")
	}
	return sql
}
