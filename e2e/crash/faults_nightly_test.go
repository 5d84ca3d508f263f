//go:build nightly

package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heldOff keeps a process from running for a while.
func (k *keeper) heldOff(ctx context.Context, d time.Duration) error {
	k.gate.Lock()
	defer k.gate.Unlock()
	if err := k.kill(); err != nil {
		return err
	}
	return pauseFor(ctx, d)
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// requireAllThere is the end of a run without kills.
func (b *bench) requireAllThere(t *testing.T) {
	t.Helper()
	require.NoError(t, b.findings(t, patience, none).err())
	t.Logf("%d spans of %d requests accepted, %d sent again; all of them are there once, rollups included", b.report.Accepted, b.report.Requests, b.sender.failed.Load())
}

// outage is how long the database is away: half a minute, or as long as
// KVWHATIF_CRASH_OUTAGE says, in seconds.
func outage(t *testing.T) time.Duration {
	return time.Duration(fromEnvironment(t, "KVWHATIF_CRASH_OUTAGE", 30)) * time.Second
}

// TestDatabaseAway takes the database away while traffic goes on. Kafka keeps it,
// and neither collect nor load grows.
func TestDatabaseAway(t *testing.T) {
	r := startStages(t, places{}, nil)
	b := newBench(t, r, newStory(t))
	holder := r.keeperOf("database holder")
	b.during(t, func(ctx context.Context) error {
		if err := pauseFor(ctx, 15*time.Second); err != nil { // until memory is what it is in traffic
			return err
		}
		watch := watchMemory(r, "collector", "loader 1", "loader 2")
		before := b.sender.count()
		err := holder.heldOff(ctx, outage(t))
		t.Logf("%d spans were accepted in the %v without a database", b.sender.count()-before, outage(t))
		watch.requireFlat(t)
		return errors.Join(err, b.sender.since(before, 1000))
	})
	b.requireAllThere(t)
}

// TestBrokerAway kills the broker three times, and starts it again: every consumer
// has to find its group again.
func TestBrokerAway(t *testing.T) {
	r := startStages(t, places{}, nil)
	b := newBench(t, r, newStory(t))
	broker := r.victimOf("broker")
	b.during(t, func(ctx context.Context) error {
		for range 3 {
			if err := errors.Join(pauseFor(ctx, 3*time.Second), broker.kill()); err != nil {
				return err
			}
			eventually(t, patience, broker.up)
		}
		return pauseFor(ctx, 3*time.Second)
	})
	require.Positive(t, b.sender.failed.Load(), "no batch was under way at a restart")
	b.requireAllThere(t)
}

// TestClockSteps sends spans of a clock that jumps by hours and days, forwards and
// backwards. It is the sender's: a process whose own clock jumps can not be had
// without a preloaded library, and load's depends on no order of time.
func TestClockSteps(t *testing.T) {
	r := startStages(t, places{}, nil)
	y := newStory(t)
	y.step = func(n int) time.Duration {
		return []time.Duration{0, -30 * time.Hour, 5 * time.Hour, -time.Hour, 9 * time.Hour, -240 * time.Hour}[n/300%6]
	}
	b := newBench(t, r, y)
	b.during(t, func(ctx context.Context) error { return pauseFor(ctx, 20*time.Second) })
	require.Greater(t, b.sender.stream.at, 1800, "the clock did not make each of its jumps")
	b.requireAllThere(t)
}

// TestHalfOpenClients opens connections that send half of a request and then
// nothing, and some that do not read what they are answered.
func TestHalfOpenClients(t *testing.T) {
	r := startStages(t, places{}, nil)
	b := newBench(t, r, newStory(t))
	const clients = 400
	b.during(t, func(ctx context.Context) error {
		if err := pauseFor(ctx, 5*time.Second); err != nil {
			return err
		}
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		for i := range clients {
			c, err := halfOpen(r, i)
			if err != nil {
				return err
			}
			open = append(open, c)
		}
		watch := watchMemory(r, "collector")
		before := b.sender.count()
		err := pauseFor(ctx, 20*time.Second)
		watch.requireFlat(t)
		t.Logf("%d spans were accepted beside %d silent clients", b.sender.count()-before, clients)
		return errors.Join(err, b.sender.since(before, 5000))
	})
	b.requireAllThere(t)
}

// halfOpen is a client of one of four kinds.
func halfOpen(r *rig, i int) (net.Conn, error) {
	addr, begin := r.http, ""
	switch i % 4 {
	case 0: // half of a body
		begin = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 5000)
	case 1: // half of the headers
		begin = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-"
	case 2: // HTTP/2 without a request
		addr, begin = r.grpc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	default: // many requests, and nobody reads the answers
		begin = strings.Repeat("POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx", 500)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, begin); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return nil, err
	}
	return c, nil
}

// TestDatabaseDiskFull fills the disk under the database during traffic.
func TestDatabaseDiskFull(t *testing.T) {
	disk := smallDisk(t, "160m")
	r := startStages(t, places{database: disk}, nil)
	b := newBench(t, r, newStory(t))
	b.during(t, func(ctx context.Context) error {
		if err := pauseFor(ctx, 3*time.Second); err != nil {
			return err
		}
		before := b.sender.count()
		if err := fillFor(ctx, disk, 8*time.Second); err != nil {
			return err
		}
		t.Logf("%d spans were accepted while the database had no disk", b.sender.count()-before)
		return pauseFor(ctx, 2*time.Second)
	})
	b.requireAllThere(t)
}

// TestBrokerDiskFull fills the disk under the broker, which ends by itself then, as
// Apache Kafka does; it is started again once there is space.
func TestBrokerDiskFull(t *testing.T) {
	disk := smallDisk(t, "192m")
	r := startStages(t, places{broker: disk}, nil)
	b := newBench(t, r, newStory(t))
	b.during(t, func(ctx context.Context) error {
		if err := pauseFor(ctx, 3*time.Second); err != nil {
			return err
		}
		if err := fillFor(ctx, disk, 8*time.Second); err != nil {
			return err
		}
		failed := b.sender.failed.Load()
		broker := r.victimOf("broker")
		if err := broker.kill(); err != nil {
			return err
		}
		eventually(t, patience, broker.up)
		t.Logf("%d spans were sent again by then", failed)
		if failed == 0 {
			return errors.New("a full disk kept nobody waiting")
		}
		return pauseFor(ctx, 2*time.Second)
	})
	b.requireAllThere(t)
}

// smallDisk is a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	return disk
}

// fillFor keeps a disk full.
func fillFor(ctx context.Context, disk string, d time.Duration) error {
	path := filepath.Join(disk, "filler")
	defer os.Remove(path)
	for end := time.Now().Add(d); time.Now().Before(end); {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		for block := make([]byte, 64<<10); err == nil; {
			_, err = f.Write(block)
		}
		f.Close()
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("fill the disk: %w", err)
		}
		if err := pauseFor(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
