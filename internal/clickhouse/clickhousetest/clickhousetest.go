// Package clickhousetest gives tests a real ClickHouse: one embedded server a
// test binary, one database a test.
//
// A package that uses it needs
//
//	func TestMain(m *testing.M) { clickhousetest.Main(m) }
//
// Where there is no engine its tests skip, and fail if CI is set.
package clickhousetest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

var (
	shared    = sync.OnceValues(start)
	stopAll   []func()
	databases atomic.Int64
)

// Main runs the tests, and the server where this binary is started as one.
func Main(m *testing.M) {
	clickhouse.RunIfChild()
	code := m.Run()
	for _, stop := range stopAll {
		stop()
	}
	os.Exit(code)
}

// AtEnd has Main call f after the tests, for what they share.
func AtEnd(f func()) { stopAll = append(stopAll, f) }

func start() (*clickhouse.Embedded, error) {
	dir, err := os.MkdirTemp("", "clickhousetest")
	if err != nil {
		return nil, err
	}
	server, err := clickhouse.StartEmbedded(context.Background(), clickhouse.EmbeddedConfig{Dir: dir})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	stopAll = append(stopAll, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = server.Stop(ctx)
		os.RemoveAll(dir)
	})
	return server, nil
}

// RequireEngine finds an engine, or skips the test (fails it where CI is set).
func RequireEngine(t testing.TB) clickhouse.Engine {
	t.Helper()
	engine, err := clickhouse.FindEngine()
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	return engine
}

// Server is the test binary's server.
func Server(t testing.TB) *clickhouse.Embedded {
	t.Helper()
	RequireEngine(t)
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// DSN makes an empty database for this test and returns its address. The
// database is dropped when the test ends.
func DSN(t testing.TB) string {
	t.Helper()
	server := Server(t)
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
	u, err := url.Parse(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Open makes an empty database for this test and connects to it.
func Open(t testing.TB) *clickhouse.Conn {
	t.Helper()
	conn, err := clickhouse.Open(context.Background(), DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
