package otlp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	runtimemetrics "runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVariable makes the test binary a receiver of that configuration.
const childVariable = "KVWHATIF_TEST_RECEIVER"

func TestMain(m *testing.M) {
	if settings := os.Getenv(childVariable); settings != "" {
		receive(settings)
		return
	}
	os.Exit(m.Run())
}

// receive is the child: it says where it listens, and at each line of its input how
// much memory it has had at most, until its input ends.
func receive(settings string) {
	cfg := local()
	if err := json.Unmarshal([]byte(settings), &cfg); err != nil {
		panic(err)
	}
	r := New(cfg, new(fake), quiet())
	if err := r.Start(context.Background()); err != nil {
		panic(err)
	}
	var peak atomic.Uint64
	go func() {
		for {
			peak.Store(max(peak.Load(), inUse()))
			time.Sleep(2 * time.Millisecond)
		}
	}()
	fmt.Println(r.GRPCAddr(), r.HTTPAddr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(max(peak.Load(), inUse()))
	}
}

// inUse is the memory of Go's heap and stacks, live or not yet swept, bytes. The
// race detector's own is not in it.
func inUse() uint64 {
	s := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// receiver is a receiver in a process of its own, so that its memory is its own.
type receiver struct {
	grpc, http string
	in         io.Writer
	out        *bufio.Reader
}

func child(t *testing.T, cfg Config) *receiver {
	t.Helper()
	settings, err := json.Marshal(cfg)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(settings))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); require.NoError(t, cmd.Wait()) })
	c := &receiver{in: in, out: bufio.NewReader(out)}
	_, err = fmt.Fscan(c.out, &c.grpc, &c.http)
	require.NoError(t, err)
	_, err = c.out.ReadString('\n')
	require.NoError(t, err)
	return c
}

// peak is the most memory that the receiver had, bytes.
func (c *receiver) peak(t *testing.T) uint64 {
	t.Helper()
	_, err := io.WriteString(c.in, "\n")
	require.NoError(t, err)
	line, err := c.out.ReadString('\n')
	require.NoError(t, err)
	var n uint64
	_, err = fmt.Sscan(strings.TrimSpace(line), &n)
	require.NoError(t, err)
	return n
}
