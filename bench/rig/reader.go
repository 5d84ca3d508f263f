package rig

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// loadWithin bounds how long a topic may take into the database.
const loadWithin = 5 * time.Minute

// Loaded is what bringing a topic into the database took.
type Loaded struct {
	CPU      time.Duration // of the process that did it
	Server   time.Duration // CPU of ClickHouse, meanwhile
	Took     time.Duration // from its start until all rows were there
	PeakByte int64         // of the process
}

// Loading says how `kvwhatif load` is run.
type Loading struct {
	Dir, Program string
	Broker       *Broker
	Database     *Database
	Rows         int64          // that its topic holds
	During       func(*Process) // called once it has started; nil: nothing
	NoRollups    bool           // rows only
}

// Load starts `kvwhatif load` on all that the topic of parts holds, and waits until
// that is visible and the rollups that it touched are made.
func Load(ctx context.Context, l Loading) (Loaded, error) {
	began := time.Now()
	server, err := CPU(l.Database.PID())
	if err != nil {
		return Loaded{}, err
	}
	var env []string
	// A slice says how many requests it has, so all together have those of the
	// table once the last rollup is made.
	query := "SELECT (SELECT count() FROM requests), (SELECT sum(n) FROM slices FINAL)"
	if l.NoRollups {
		env, query = []string{"KVWHATIF_LOAD_RECOMPUTE_EVERY=1h"}, "SELECT count(), count() FROM requests"
	}
	p, _, err := LaunchStage(ctx, l.Dir, l.Program, env, "load", "--kafka", l.Broker.Addr(), "--clickhouse", l.Database.DSN(), "--from-beginning", "--pprof", "127.0.0.1:0")
	if err != nil {
		return Loaded{}, err
	}
	if l.During != nil {
		go l.During(p)
	}
	got, err := l.Database.until(ctx, p, began, server, l.Rows, query)
	if l.NoRollups {
		_ = p.cmd.Process.Kill() // it would make them at its end
	}
	p.Stop()
	return got, err
}

// PeerFromKafka starts the peer on all that its topic holds, and waits until that
// is visible.
func PeerFromKafka(ctx context.Context, dir, program string, b *Broker, d *Database, rows int64, group string, batch int) (Loaded, error) {
	config, err := peer.FromKafka(b.Addr(), d.DSN(), group, batch)
	if err != nil {
		return Loaded{}, err
	}
	args, err := peer.Write(dir, "fromkafka", config)
	if err != nil {
		return Loaded{}, err
	}
	began := time.Now()
	server, err := CPU(d.PID())
	if err != nil {
		return Loaded{}, err
	}
	p, err := Launch(dir, program, nil, args...)
	if err != nil {
		return Loaded{}, err
	}
	defer p.Stop()
	table := peer.SpansDatabase + "." + peer.SpansTable
	return d.until(ctx, p, began, server, rows, "SELECT count(), count() FROM "+table)
}

// until waits until a query, asked seldom, counts so many rows twice: visible, and
// done with.
func (d *Database) until(ctx context.Context, p *Process, began time.Time, server time.Duration, rows int64, query string) (l Loaded, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	var seen, done uint64
	for err = error(nil); int64(done) < rows; {
		if !p.Running() || ctx.Err() != nil {
			return l, fmt.Errorf("%d rows of %d are visible, and %d done with: %v %v (it says: %s)", seen, rows, done, err, ctx.Err(), p.Said())
		}
		time.Sleep(100 * time.Millisecond)
		err = d.Conn.QueryRow(ctx, query).Scan(&seen, &done)
		if err != nil && !clickhouse.IsRetryable(err) {
			seen, done = 0, 0 // the peer has not made its table yet
		}
		if int64(seen) >= rows && l.Took == 0 {
			l.Took = time.Since(began)
		}
	}
	if l.CPU, err = CPU(p.Pid()); err != nil {
		return l, err
	}
	if l.PeakByte, err = PeakMemory(p.Pid()); err != nil {
		return l, err
	}
	after, err := CPU(d.PID())
	l.Server = after - server
	return l, err
}
