package app

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/replay/probe"
	"github.com/kvwhatif/kvwhatif/schema"
)

// relay passes connections on to target, what comes back at rate bytes/s in all.
func relay(t *testing.T, target string, rate float64) (address string, wire *paced) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	wire = &paced{rate: rate}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", target)
			if err != nil {
				_ = conn.Close()
				continue
			}
			go wire.pass(back, conn, false)
			go wire.pass(conn, back, true)
		}
	}()
	return l.Addr().String(), wire
}

// catchUp is how much of what a busy machine missed is made up for.
const catchUp = 30 * time.Millisecond

// paced is a wire: flows take turns of a piece each.
type paced struct {
	rate float64
	mu   sync.Mutex
	free time.Time // when the last piece has passed
	late int       // pieces that the machine was too busy to pass in time
}

// made is how much of its rate the wire is sure to have made, for a test's bound:
// where the machine was too busy for it, nothing is known.
func (p *paced) made() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late > 0 {
		return 0
	}
	return 0.85
}

func (p *paced) pass(to, from net.Conn, slow bool) {
	defer to.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if slow {
			p.wait(n)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *paced) wait(n int) {
	p.mu.Lock()
	if late := time.Now().Add(-catchUp); p.free.Before(late) { // what a busy machine missed is made up for
		p.free = late
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * 1e9))
	until := p.free
	p.mu.Unlock()
	time.Sleep(time.Until(until))
	if time.Since(until) > catchUp {
		p.mu.Lock()
		p.late++
		p.mu.Unlock()
	}
}

func startProbe(t *testing.T, address string, cfg probe.ServerConfig) string {
	ctx, cancel := context.WithCancel(t.Context())
	at, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- ServeProbe(ctx, address, cfg, func(a string) { at <- a }) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return <-at
}

// The fit finds the rate of a relay within 15 %, by one flow and by four. Where the
// machine is too busy to make that rate, it finds no more than it.
func TestProbeFindsTheRateOfALink(t *testing.T) {
	const rate = 8e6
	link, wire := relay(t, startProbe(t, "127.0.0.1:0", probe.ServerConfig{}), rate)
	o := ProbeOptions{
		Config: probe.Config{
			Address: link, Sizes: []int64{128 << 10, 512 << 10}, Flows: []int{1, 4}, Rounds: 3, Seed: 1, MaxBytes: 32 << 20, MaxShare: 1,
		},
		Tier: schema.TierCPU, Link: "wire", Pair: "a>b", Save: filepath.Join(t.TempDir(), "probe.json"),
	}
	p, err := RunProbe(t.Context(), o)
	require.NoError(t, err)
	require.NotNil(t, p.Fit, p.Unfitted)
	assert.Less(t, p.Fit.Law.Link.B, 1.15*rate, "%+v", p.Fit.Law)
	assert.Greater(t, p.Fit.Law.Link.B, wire.made()*rate, "%+v", p.Fit.Law)
	assert.Positive(t, p.Intervals["b"].High-p.Intervals["b"].Low)
	assert.Contains(t, p.Text(), "capacity, B")

	back, err := readProbes([]string{o.Save})
	require.NoError(t, err)
	require.Equal(t, p, back[0])
	first := p.Observations[0].StartNanos
	window := fit.Observations{FromNanos: first - 1e9, UntilNanos: first + 3600e9}
	addProbes(&window, window.UntilNanos, back)
	fits, _ := fit.Transfers(window.Transfer, 10)
	require.Len(t, fits, 1)
	require.NoError(t, checkUsed(back))
	assert.InEpsilon(t, p.Fit.Law.Link.B, fits[0].Law.Link.B, 1e-6, "calibrate fits what the probe did")
	old := fit.Observations{FromNanos: first + 3600e9, UntilNanos: first + 7200e9}
	back, err = readProbes([]string{o.Save})
	require.NoError(t, err)
	addProbes(&old, old.UntilNanos, back)
	assert.ErrorContains(t, checkUsed(back), "widen calibrate.window")
	assert.Empty(t, old.Transfer, "a probe before the window")
}

func TestProbeEndsWithItsKillFile(t *testing.T) {
	kill := filepath.Join(t.TempDir(), "kill")
	require.NoError(t, os.WriteFile(kill, nil, 0o600))
	link, _ := relay(t, startProbe(t, "127.0.0.1:0", probe.ServerConfig{}), 1000)
	_, err := RunProbe(t.Context(), ProbeOptions{
		Config: probe.Config{Address: link, Sizes: []int64{1 << 20}, Flows: []int{1}, Rounds: 1, MaxBytes: 1 << 30, MaxShare: 1},
		Tier:   schema.TierCPU, Link: "wire", Kill: kill,
	})
	assert.ErrorIs(t, err, probe.ErrStopped)
	assert.ErrorContains(t, err, kill)
}

func TestProbeRefusals(t *testing.T) {
	err := ServeProbe(t.Context(), "0.0.0.0:0", probe.ServerConfig{}, nil)
	assert.ErrorContains(t, err, "KVWHATIF_PROBE_TOKEN")
	_, err = RunProbe(t.Context(), ProbeOptions{Tier: schema.TierCPU})
	assert.ErrorContains(t, err, "--link")
	_, err = RunProbe(t.Context(), ProbeOptions{Link: "wire"})
	assert.ErrorContains(t, err, "--tier")
	for name, text := range map[string]string{
		"no JSON": "x", "another file": "{}", "no tier": `{"kvwhatif_probe":1,"link":"l"}`,
		"no time": `{"kvwhatif_probe":1,"link":"l","tier":"cpu","observations":[{"bytes":1,"flows":1,"first_byte_unix_nanos":5}]}`,
	} {
		path := filepath.Join(t.TempDir(), "p.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := readProbes([]string{path})
		assert.ErrorContains(t, err, path, name)
	}
	few := newProbed(ProbeOptions{Tier: schema.TierCPU, Link: "l"}, []probe.Observation{{Bytes: 1, Flows: 1, StartNanos: 1, Seconds: 1}}, nil)
	assert.Nil(t, few.Fit)
	assert.Contains(t, few.Text(), "no law: fewer than")
	text, err := json.Marshal(few)
	require.NoError(t, err)
	assert.NotContains(t, string(text), `"fit"`)
}
