package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	exception := func(code int32, message string) error {
		return fmt.Errorf("insert: %w", &ch.HTTPError{StatusCode: 500, Err: &ch.Exception{Code: code, Message: message}})
	}
	for _, c := range []struct {
		err   error
		class Class
		text  string
	}{
		{exception(241, "Memory limit (total) exceeded"), Retryable, "memory limit"},
		{exception(243, "Cannot reserve 1.00 MiB, not enough space"), Retryable, "disk of ClickHouse is full"},
		{exception(75, "Cannot write to file: , errno: 28, strerror: No space left on device"), Retryable, "disk of ClickHouse is full"},
		{exception(252, "Too many parts"), Retryable, "too many parts"},
		{exception(1000, "Poco::Exception. Code: 1000, e.code() = 0, System exception: cannot lock mutex"), Retryable, "by itself, or is ending"},
		{exception(60, "Table kvwhatif.x does not exist. (UNKNOWN_TABLE) (version 26.7.2.1)"), Permanent, "unknown ClickHouse table"},
		{exception(62, "Syntax error:\n failed at position 1"), Permanent, "Syntax error: failed at position 1"},
		{exception(516, "reader: Authentication failed"), Permanent, "refused the user or password"},
		{&ch.HTTPError{StatusCode: 502, Err: errors.New("bad gateway")}, Retryable, "HTTP 502"},
		{&ch.HTTPError{StatusCode: 404, Err: errors.New("not found")}, Permanent, "is it the HTTP port"},
		{&ch.HTTPError{StatusCode: 403, Err: errors.New("no")}, Permanent, "refused the user"},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), Retryable, "closed the connection"},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), Retryable, "not running"},
		{context.DeadlineExceeded, Retryable, "in time"},
		{errors.New("something new"), Retryable, "something new"},
	} {
		e := Classify(c.err)
		require.Equal(t, c.class, e.Class, "%v", c.err)
		require.Contains(t, e.Text, c.text)
		require.NotContains(t, e.Text, "\n")
		require.ErrorIs(t, e, c.err)
		require.Equal(t, c.class == Retryable, IsRetryable(fmt.Errorf("wrapped: %w", e)))
	}
	require.NoError(t, Explain(nil))
	require.False(t, IsRetryable(nil))
	require.False(t, IsRetryable(context.Canceled))
}

func TestOpenErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for dsn, text := range map[string]string{
		"":                                  "needs to begin with http://",
		"localhost:8123":                    "needs to begin with http://",
		"http://":                           "name a host",
		"http://u:p%zz@host":                "cannot be read",
		"http://127.0.0.1:1/x":              "not running at 127.0.0.1:1",
		"clickhouse://127.0.0.1:1/x":        "not running at 127.0.0.1:1",
		"http://nowhere.invalid/x":          "nowhere.invalid",
		other.URL + "/x":                    "is it the HTTP port of ClickHouse",
		"http://127.0.0.1:1/x?dial_timeout": "dial timeout",
	} {
		_, err := Open(t.Context(), dsn)
		require.ErrorContains(t, err, text, dsn)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestDSNDefaults(t *testing.T) {
	for dsn, want := range map[string]string{
		"http://h":                   "http h:8123 kvwhatif",
		"https://h/d":                "http h:8443 d",
		"clickhouse://h/":            "native h:9000 kvwhatif",
		"http://h:1/d":               "http h:1 d",
		"http://a:1/d?alt_hosts=b:2": "http a:1 d",
		"http://u:p@[::1]/db":        "http [::1]:8123 db",
	} {
		o, err := parse(dsn)
		require.NoError(t, err, dsn)
		require.Equal(t, want, o.Protocol.String()+" "+o.Addr[0]+" "+o.Auth.Database)
		require.Equal(t, 0, o.Settings["async_insert"])
	}
}

func TestFindEngineOrder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("PATH", dir)
	t.Setenv(LibraryVariable, "")
	_, err := FindEngine()
	require.ErrorIs(t, err, ErrNoEngine)

	binary := touch(t, filepath.Join(dir, "clickhouse"))
	engine, err := FindEngine()
	require.NoError(t, err)
	require.Equal(t, Engine{Binary: binary}, engine)
	if !libraryRuns {
		return
	}
	library := touch(t, filepath.Join(dir, "kvwhatif", "clickhouse", EngineVersion, "libchdb.so"))
	engine, err = FindEngine()
	require.NoError(t, err)
	require.Equal(t, Engine{Library: library}, engine)

	named := touch(t, filepath.Join(dir, "mine.so"))
	t.Setenv(LibraryVariable, named)
	engine, err = FindEngine()
	require.NoError(t, err)
	require.Equal(t, Engine{Library: named}, engine)

	t.Setenv(LibraryVariable, filepath.Join(dir, "missing.so"))
	_, err = FindEngine()
	require.ErrorContains(t, err, "is not a file")
}

func touch(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	return path
}

func TestPasswordsOutliveARestartAndAreSecret(t *testing.T) {
	dir := t.TempDir()
	first, err := writeFiles(EmbeddedConfig{Dir: dir, Port: 1})
	require.NoError(t, err)
	second, err := writeFiles(EmbeddedConfig{Dir: dir, Port: 2})
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.NotEqual(t, first.reader, first.writer)
	info, err := os.Stat(filepath.Join(dir, usersFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	other, err := writeFiles(EmbeddedConfig{Dir: t.TempDir(), Port: 1})
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

func TestChildRefusesToBeRunByHand(t *testing.T) {
	for _, args := range []string{"", "--dir=x", "--dir=x --port=1", "--dir=x --port=1 --library=a --binary=b", "--what"} {
		require.Equal(t, 2, ChildMain(strings.Fields(args)), args)
	}
}

func TestIsUnknownUser(t *testing.T) {
	refused := fmt.Errorf("insert: %w", &ch.HTTPError{StatusCode: 403, Err: &ch.Exception{Code: 516, Message: "Authentication failed"}})
	require.True(t, IsUnknownUser(refused))
	require.True(t, IsUnknownUser(fmt.Errorf("read: %w", Classify(refused))))
	require.False(t, IsUnknownUser(nil))
	require.False(t, IsUnknownUser(io.ErrUnexpectedEOF))
}
