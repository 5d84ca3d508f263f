package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	chgo "github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// insertPatience is how long a server may take over one packet of its answer to
// an insert.
const insertPatience = 5 * time.Minute

// InsertColumns sends one block of typed columns over the native protocol and
// returns once the server has it. insert is the statement without VALUES. The
// driver's own batches know no typed columns, so the block goes over a connection
// of its own, which is closed again: a block is large, and there are few.
func (c *Conn) InsertColumns(ctx context.Context, insert string, columns []proto.InputColumn) error {
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	settings := []chgo.Setting{{Key: "async_insert", Value: "0", Important: true}}
	err = client.Do(ctx, chgo.Query{Body: insert + " VALUES", Input: columns, Settings: settings})
	var exception *chgo.Exception
	if errors.As(err, &exception) {
		return classifyCode(int(exception.Code), exception.Message, err)
	}
	return err
}

// dial connects to the first address that answers.
func (c *Conn) dial(ctx context.Context) (client *chgo.Client, err error) {
	o := c.options
	for _, addr := range o.Addr {
		client, err = chgo.Dial(ctx, chgo.Options{
			Address: addr, Database: o.Auth.Database, User: o.Auth.Username, Password: o.Auth.Password,
			ClientName: "kvwhatif", Compression: chgo.CompressionLZ4, TLS: o.TLS,
			DialTimeout: o.DialTimeout, ReadTimeout: insertPatience,
		})
		if err == nil {
			return client, nil
		}
	}
	return nil, fmt.Errorf("connect for an insert: %w", err)
}

// Native says whether the connection speaks the native protocol.
func (c *Conn) Native() bool { return c.options.Protocol == ch.Native }
