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

// lookEvery is how often one who waits for the server's answer to an insert looks
// whether its own side still goes on.
const lookEvery = time.Second

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
	asTheyAre := make([]proto.InputColumn, len(columns))
	for i, c := range columns {
		asTheyAre[i] = proto.InputColumn{Name: c.Name, Data: typed{c.Data}}
	}
	settings := []chgo.Setting{{Key: "async_insert", Value: "0", Important: true}}
	err = client.Do(ctx, chgo.Query{Body: insert + " VALUES", Input: asTheyAre, Settings: settings})
	var exception *chgo.Exception
	if errors.As(err, &exception) {
		return classifyCode(int(exception.Code), exception.Message, err)
	}
	return err
}

// typed is a column that keeps its type: it is not fitted to the table's, which may
// be an aggregate function of it. The server converts.
type typed struct{ proto.ColInput }

// EncodeState writes what comes before the values of some types.
func (t typed) EncodeState(b *proto.Buffer) {
	if s, ok := t.ColInput.(proto.StateEncoder); ok {
		s.EncodeState(b)
	}
}

// Prepare makes the column ready to be encoded.
func (t typed) Prepare() error {
	if p, ok := t.ColInput.(proto.Preparable); ok {
		return p.Prepare()
	}
	return nil
}

// dial connects to the first address that answers.
func (c *Conn) dial(ctx context.Context) (client *chgo.Client, err error) {
	o := c.options
	for _, addr := range o.Addr {
		client, err = chgo.Dial(ctx, chgo.Options{
			Address: addr, Database: o.Auth.Database, User: o.Auth.Username, Password: o.Auth.Password,
			ClientName: "kvwhatif", Compression: chgo.CompressionLZ4, TLS: o.TLS,
			DialTimeout: o.DialTimeout, ReadTimeout: lookEvery,
		})
		if err == nil {
			return client, nil
		}
	}
	return nil, fmt.Errorf("connect for an insert: %w", err)
}

// Native says whether the connection speaks the native protocol.
func (c *Conn) Native() bool { return c.options.Protocol == ch.Native }
