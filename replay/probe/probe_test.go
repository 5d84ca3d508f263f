package probe_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/probe"
)

func serve(t *testing.T, cfg probe.ServerConfig) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- probe.NewServer(cfg).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return l.Addr().String()
}

func config(address string) probe.Config {
	return probe.Config{
		Address: address, Token: "t", Sizes: []int64{1, 1000, 1 << 20}, Flows: []int{1, 3}, Rounds: 2, Seed: 1, MaxBytes: 1 << 30, MaxShare: 1,
		Timeout: 20 * time.Second,
	}
}

func TestRunMovesWhatItSays(t *testing.T) {
	rounds := 0
	cfg := config(serve(t, probe.ServerConfig{Token: "t"}))
	cfg.Progress = func(done, all int) { rounds++; assert.Equal(t, 12, all) }
	seen, err := probe.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, seen, 3*(1+3)*2)
	assert.Equal(t, 12, rounds)
	var moved int64
	inRound := map[int]int{}
	for _, o := range seen {
		require.NoError(t, o.Check())
		assert.InDelta(t, o.Total, o.FirstByte+o.Seconds, 1e-12)
		moved += o.Bytes
		inRound[o.Round]++
	}
	assert.Equal(t, cfg.Bytes(), moved)
	for _, o := range seen {
		assert.Equal(t, o.Flows, inRound[o.Round])
	}
}

func TestRunIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		server probe.ServerConfig
		change func(*probe.Config)
		says   string
	}{
		"another token":   {probe.ServerConfig{Token: "other"}, nil, "token"},
		"more than given": {probe.ServerConfig{Token: "t", MaxBytes: 1 << 20}, nil, "limit"},
		"too many flows":  {probe.ServerConfig{Token: "t", MaxFlows: 2}, nil, ""},
		"over the budget": {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.MaxBytes = 1000 }, "may move 1000"},
		"no share":        {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.MaxShare = 0 }, "share"},
		"no size":         {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.Sizes = []int64{0} }, "size"},
		"no flows":        {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.Flows = nil }, "flows"},
		"nobody there":    {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.Address = "127.0.0.1:1" }, "probe serve"},
		"a long token":    {probe.ServerConfig{Token: "t"}, func(c *probe.Config) { c.Token = fmt.Sprintf("%600d", 1) }, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(serve(t, c.server))
			if c.change != nil {
				c.change(&cfg)
			}
			_, err := probe.Run(t.Context(), cfg)
			assert.ErrorContains(t, err, c.says)
		})
	}
}

// A server that answers and then sends nothing.
func silent(t *testing.T) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{1})
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return l.Addr().String()
}

func TestAKillSwitchEndsIt(t *testing.T) {
	cfg := config(silent(t))
	var asked atomic.Int64
	cfg.Stop = func() string {
		if asked.Add(1) > 1 {
			return "enough"
		}
		return ""
	}
	_, err := probe.Run(t.Context(), cfg)
	assert.ErrorIs(t, err, probe.ErrStopped)
	assert.ErrorContains(t, err, "enough")

	cfg = config(silent(t))
	cfg.Timeout = 50 * time.Millisecond
	_, err = probe.Run(t.Context(), cfg)
	assert.ErrorContains(t, err, "no end within 50ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = probe.Run(ctx, config(silent(t)))
	assert.ErrorIs(t, err, context.Canceled)
}

// What is cut short gives what was seen.
func TestWhatWasSeenIsKept(t *testing.T) {
	cfg := config(serve(t, probe.ServerConfig{Token: "t", MaxBytes: 3 << 20}))
	seen, err := probe.Run(t.Context(), cfg)
	assert.ErrorIs(t, err, probe.ErrRefused)
	assert.NotEmpty(t, seen)
}

// FuzzServer sends a server anything: it neither ends nor gives what it may not.
func FuzzServer(f *testing.F) {
	ask := binary.BigEndian.AppendUint64([]byte(`{"kvwhatif_probe":1,"token":"t"}`+"\n"), 100)
	for _, seed := range []string{string(ask), "", "\n", "{}\n", `{"kvwhatif_probe":2}` + "\n", string(ask[:40]), string(ask) + "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		address := serve(t, probe.ServerConfig{Token: "t", MaxBytes: 1000})
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		_, _ = conn.Write(sent) // the server may have closed already
		_ = conn.(*net.TCPConn).CloseWrite()
		got, _ := io.Copy(io.Discard, conn)
		assert.LessOrEqual(t, got, int64(1000+len(sent)))
	})
}
