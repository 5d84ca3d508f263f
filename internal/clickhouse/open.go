package clickhouse

import (
	"context"
	"fmt"
	"net/url"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Conn is a pool of connections to one ClickHouse. Its methods are the
// driver's; pass their errors to Classify, Explain or IsRetryable.
type Conn struct {
	driver.Conn
	options *ch.Options
}

// Open connects to the server that the DSN names, and sees that it answers:
//
//	http://user:password@host:8123/database
//	https://user:password@host:8443/database
//	clickhouse://user:password@host:9000/database
//
// The protocol's usual port and the database kvwhatif are used where the DSN
// names none; further hosts, replicas of the same rows, go into
// ?alt_hosts=HOST:PORT,HOST:PORT. Of a list of shards (Split) it is the first,
// whose tables are over all of them. Every error is an *Error on one line. Inserts
// are synchronous: what Send has returned for is in the table.
func Open(ctx context.Context, dsn string) (*Conn, error) {
	options, err := parse(Split(dsn)[0])
	if err != nil {
		return nil, &Error{Class: Permanent, Err: err, Text: err.Error()}
	}
	db, err := ch.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", Classify(err))
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("open ClickHouse: %w", Classify(err))
	}
	return &Conn{Conn: db, options: options}, nil
}

// Database is the name of the database that the connection uses.
func (c *Conn) Database() string { return c.options.Auth.Database }

// HTTP says whether the connection speaks HTTP, which InsertFormat needs.
func (c *Conn) HTTP() bool { return c.options.Protocol == ch.HTTP }

// parse reads a DSN strictly, so that a slip is an error and not a default.
func parse(dsn string) (*ch.Options, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, unreadable()
	}
	ports := map[string]string{"http": "8123", "https": "8443", "clickhouse": "9000"}
	port, ok := ports[u.Scheme]
	if !ok || u.Hostname() == "" {
		return nil, fmt.Errorf("the ClickHouse address %q needs to begin with http://, https:// or clickhouse:// and name a host", u.Redacted())
	}
	if u.Port() == "" {
		u.Host += ":" + port
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/" + Database
	}
	if u.Scheme == "https" && !u.Query().Has("secure") {
		query := u.Query()
		query.Set("secure", "true")
		u.RawQuery = query.Encode()
	}
	options, err := ch.ParseDSN(u.String())
	if err != nil {
		return nil, fmt.Errorf("the ClickHouse address %q: %w", u.Redacted(), err)
	}
	options.Settings["async_insert"] = 0
	// On tables over several shards: an insert returns when the shard has it, and a
	// subquery is asked of all shards, not of each for itself. Elsewhere they are idle.
	options.Settings["distributed_foreground_insert"] = 1
	options.Settings["distributed_product_mode"] = "global"
	if options.DialTimeout == 0 {
		options.DialTimeout = 5 * time.Second
	}
	return options, nil
}

// Waits of Retry.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Retry runs op until it succeeds, its error is Permanent, or ctx ends. The
// wait doubles from 0.1 s to 10 s. Before each wait it calls note, which may
// be nil, with the error. The error returned is the last of op, classified.
func Retry(ctx context.Context, note func(error), op func(context.Context) error) error {
	wait := firstRetry
	for {
		err := op(ctx)
		if err == nil {
			return nil
		}
		e := Classify(err)
		if e.Class == Permanent || ctx.Err() != nil {
			return e
		}
		if note != nil {
			note(e)
		}
		select {
		case <-ctx.Done():
			return e
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}
