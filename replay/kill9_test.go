package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

// childDir is set in the child that TestTenKillsAtRandomMoments starts.
const childDir = "KVWHATIF_TEST_REPLAY_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childDecisions = 2000

// child replays a log whose offset is a file, and emits into another; it says on
// standard output when it runs legs.
func child(dir string) error {
	store, err := OpenStore(filepath.Join(dir, "legs"), 0)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, "emitted"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	plan, err := testPlanOf(0.2)
	if err != nil {
		return err
	}
	r, err := New(Config{
		Plan: plan, Limits: rich(), Logger: slog.New(slog.DiscardHandler), Retry: 5 * time.Millisecond,
		Emit: func(_ context.Context, p schema.Part) error {
			mu.Lock()
			defer mu.Unlock()
			_, err := fmt.Fprintln(out, strings.TrimPrefix(p.RequestID, schema.ReplayRequestIDPrefix))
			return err
		},
	}, store)
	if err != nil {
		return err
	}
	ex := &executetest.Fake{Block: func(ctx context.Context, l execute.Leg) error {
		fmt.Println("leg", l.ID)
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
		if l.Seed()%5 == 0 {
			return execute.ErrRefused
		}
		return nil
	}}
	if err := r.Run(context.Background(), &fileLog{dir: dir, log: log{parts: decisions(childDecisions)}}, ex); err != nil {
		return err
	}
	return store.Close()
}

// fileLog is a log that begins where its file says.
type fileLog struct {
	log
	dir    string
	opened bool
}

func (s *fileLog) Next(ctx context.Context) (Batch, error) {
	path := filepath.Join(s.dir, "offset")
	if !s.opened {
		s.opened = true
		raw, err := os.ReadFile(path)
		if err == nil {
			s.read, _ = strconv.Atoi(string(raw))
		}
	}
	b, err := s.log.Next(ctx)
	if err != nil {
		return b, err
	}
	at := s.read
	b.Ack = func(context.Context) error {
		if err := os.WriteFile(path+".new", []byte(strconv.Itoa(at)), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	return b, nil
}

// TestTenKillsAtRandomMoments kills the replayer with SIGKILL while it runs legs,
// ten times: in the end each leg drawn has a result that was emitted, under one
// identifier, or a reason, and none was forgotten or drawn twice.
func TestTenKillsAtRandomMoments(t *testing.T) {
	dir, random := t.TempDir(), rand.New(rand.NewPCG(3, uint64(os.Getpid())))
	kills := 0
	for done := false; !done; {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		stderr := &strings.Builder{}
		cmd.Stderr = stderr
		legs, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		victim := kills < 10
		left := 1 + random.IntN(40) // legs until the end
		buffer := make([]byte, 4096)
		for {
			n, err := legs.Read(buffer)
			if left -= strings.Count(string(buffer[:n]), "leg "); victim && left <= 0 {
				require.NoError(t, cmd.Process.Kill())
				victim = false
				kills++
			}
			if err != nil {
				break
			}
		}
		err = cmd.Wait()
		done = err == nil
		if err != nil {
			require.Contains(t, err.Error(), "killed", stderr.String())
		}
	}
	require.Equal(t, 10, kills, "it came to its end before it was killed so often")
	store, err := OpenStore(filepath.Join(dir, "legs"), 0)
	require.NoError(t, err)
	defer store.Close()
	raw, err := os.ReadFile(filepath.Join(dir, "emitted"))
	require.NoError(t, err)
	emitted := map[string]int{}
	for _, id := range strings.Fields(string(raw)) {
		emitted[id]++
	}
	plan, err := testPlanOf(0.2)
	require.NoError(t, err)
	drawn, repeated := 0, 0
	for _, p := range decisions(childDecisions) {
		for _, d := range plan.Draw(p) {
			drawn++
			id := legID(p, d.Leg)
			e := store.legs[id]
			require.NotNil(t, e, "leg %s was forgotten", id)
			require.True(t, e.done)
			if e.why == "" {
				assert.Positive(t, emitted[id], "leg %s has neither a result nor a reason", id)
				repeated += emitted[id] - 1
			} else {
				assert.Zero(t, emitted[id], "leg %s has a result and a reason", id)
			}
			delete(emitted, id)
		}
	}
	assert.Empty(t, emitted, "nobody drew these")
	assert.Len(t, store.legs, drawn)
	intended, executed := 0, 0
	for _, tally := range store.books.Tallies {
		intended, executed = intended+tally.Intended, executed+tally.Executed
	}
	assert.GreaterOrEqual(t, intended, drawn, "completeness is never overstated")
	assert.LessOrEqual(t, executed, intended)
	text, _ := json.Marshal(store.Outcomes())
	t.Logf("%d legs drawn, %d emitted again after a kill (under the same identifiers), outcomes %s", drawn, repeated, text)
}
