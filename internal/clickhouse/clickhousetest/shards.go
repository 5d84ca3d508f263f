package clickhousetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// Cluster is the name that the servers of Shards have for themselves.
const Cluster = "shards"

// clusterSecret is the password of the shards' writer: they know each other's.
const clusterSecret = "of-a-test"

// Shards are servers that are the shards of one cluster. They speak HTTP, and the
// native protocol among each other.
type Shards struct {
	configs []clickhouse.EmbeddedConfig
	servers []*clickhouse.Embedded
	root    string
}

var cluster = sync.OnceValues(func() (*Shards, error) { return startShards(2) })

// Pair is the two shards of the test binary.
func Pair(t testing.TB) *Shards {
	t.Helper()
	RequireEngine(t)
	s, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startShards starts n servers that know each other by their ports.
func startShards(n int) (*Shards, error) {
	root, err := os.MkdirTemp("", "clickhousetest")
	if err != nil {
		return nil, err
	}
	s := &Shards{servers: make([]*clickhouse.Embedded, n), root: root}
	stopAll = append(stopAll, s.stop)
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var peers strings.Builder
	for _, port := range ports[n:] {
		fmt.Fprintf(&peers, "<shard><internal_replication>true</internal_replication><replica><host>127.0.0.1</host><port>%d</port><user>%s</user><password>%s</password></replica></shard>",
			port, clickhouse.Writer, clusterSecret)
	}
	for i := range n {
		dir := filepath.Join(root, fmt.Sprint("shard", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		users := fmt.Sprintf("<%[1]s><password>%[2]s</password></%[1]s>", clickhouse.Writer, clusterSecret) // which a start keeps
		if err := os.WriteFile(filepath.Join(dir, "users.xml"), []byte(users), 0o600); err != nil {
			return nil, err
		}
		s.configs = append(s.configs, clickhouse.EmbeddedConfig{Dir: dir, Port: ports[i], Native: ports[n+i],
			Config: fmt.Sprintf("  <remote_servers><%[1]s>%[2]s</%[1]s></remote_servers>\n", Cluster, peers.String())})
		if err := s.start(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// freePorts gives ports of 127.0.0.1 that nobody listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (s *Shards) start(i int) (err error) {
	s.servers[i], err = clickhouse.StartEmbedded(context.Background(), s.configs[i])
	return err
}

func (s *Shards) stop() {
	for i := range s.servers {
		_ = s.end(i)
	}
	os.RemoveAll(s.root)
}

func (s *Shards) end(i int) error {
	if s.servers[i] == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := s.servers[i].Stop(ctx)
	s.servers[i] = nil
	return err
}

// Stop ends shard i, from 0, until Start.
func (s *Shards) Stop(t testing.TB, i int) {
	t.Helper()
	if err := s.end(i); err != nil {
		t.Fatal(err)
	}
}

// Start starts shard i again, at the same ports and with its rows.
func (s *Shards) Start(t testing.TB, i int) {
	t.Helper()
	if err := s.start(i); err != nil {
		t.Fatal(err)
	}
}

// DSN is the list of the shards' addresses for a database of this test, which is
// not made yet; it is dropped when the test ends.
func (s *Shards) DSN(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	list := make([]string, len(s.servers))
	for i, server := range s.servers {
		dsn, err := clickhouse.At(server.DSN(), name)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = dsn
	}
	all := strings.Join(list, ",")
	t.Cleanup(func() {
		conns, err := clickhouse.OpenEach(context.Background(), all, "system")
		if err != nil {
			return // a test that failed while a shard was away
		}
		for _, c := range conns {
			_ = c.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" SYNC")
			_ = c.Exec(context.Background(), "DROP DATABASE IF EXISTS "+clickhouse.LocalDatabase(name)+" SYNC")
			c.Close()
		}
	})
	return all
}

// Native is the address of this test's database, as DSN makes it, on a server that
// speaks the native protocol. Whoever connects closes its connections: a TCP reset
// ends the server.
func Native(t testing.TB) string {
	t.Helper()
	server := Pair(t).servers[0]
	admin, err := clickhouse.Open(context.Background(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	if err := admin.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.Exec(context.Background(), "DROP DATABASE "+name+" SYNC")
		admin.Close()
	})
	dsn, err := clickhouse.At(server.NativeDSN(), name)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}
