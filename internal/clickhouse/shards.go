package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// localSuffix ends the name of the database in which a shard keeps its own rows.
const localSuffix = "_local"

// LocalDatabase is the database in which each of several shards keeps its own
// rows; the database named so itself holds tables over all shards.
func LocalDatabase(database string) string { return database + localSuffix }

// beginning of an address in a list: hosts of one shard (alt_hosts) are parted by
// commas too.
var beginning = regexp.MustCompile(`,\s*((?:https?|clickhouse)://)`)

// Split gives the addresses of a list, a shard each, parted by commas:
//
//	http://user:password@shard1:8123/kvwhatif,http://user:password@shard2:8123/kvwhatif
//
// Of a single address it gives that.
func Split(dsn string) []string {
	return strings.Split(beginning.ReplaceAllString(strings.TrimSpace(dsn), "\n$1"), "\n")
}

// At is the address with another database.
func At(dsn, database string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", unreadable()
	}
	u.Path = "/" + database
	return u.String(), nil
}

// DatabaseOf is the database that the address names, or the usual one.
func DatabaseOf(dsn string) (string, error) {
	options, err := parse(dsn)
	if err != nil {
		return "", err
	}
	return options.Auth.Database, nil
}

// OpenEach connects to the database named on every shard of a list of addresses, in
// its order. Addresses of shards name one database.
func OpenEach(ctx context.Context, dsn, database string) ([]*Conn, error) {
	list := Split(dsn)
	first, err := DatabaseOf(list[0])
	if err != nil {
		return nil, &Error{Class: Permanent, Err: err, Text: err.Error()}
	}
	var conns []*Conn
	for i, one := range list {
		c, err := openAs(ctx, one, database, first)
		if err != nil {
			for _, c := range conns {
				c.Close()
			}
			return nil, fmt.Errorf("shard %d of %d: %w", i+1, len(list), err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func openAs(ctx context.Context, dsn, database, first string) (*Conn, error) {
	own, err := DatabaseOf(dsn)
	if err == nil && own != first {
		err = fmt.Errorf("its address names the database %s, the first one's %s: give all shards the same", own, first)
	}
	if err == nil {
		dsn, err = At(dsn, database)
	}
	if err != nil {
		return nil, &Error{Class: Permanent, Err: err, Text: err.Error()}
	}
	return Open(ctx, dsn)
}

func unreadable() error {
	return errors.New("the ClickHouse address cannot be read: write it as http://USER:PASSWORD@HOST:8123/DATABASE, with %-escapes in the password")
}
