package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// The kill switch is one: the file Config.KillFile, which Kill makes and Resume
// removes, so that it holds over a restart whoever set it. Without a file it is in
// memory.

// killEvery is how often the file is looked for while legs run.
const killEvery = 200 * time.Millisecond

var (
	errKilled = errors.New("replays were stopped")
	errHeld   = errors.New("the circuit breaker holds replays")
)

// Kill stops all legs until Resume: none starts, and those under way are cut short.
// why is shown. Decisions are still drawn, so that what did not run is counted. An
// error says that the switch is on, but will not outlast this process.
func (r *Runner) Kill(why string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why = strings.TrimSpace(why); why == "" {
		why = "killed"
	}
	r.killed = why
	r.cut(errKilled)
	if r.cfg.KillFile == "" {
		return nil
	}
	err := os.WriteFile(r.cfg.KillFile, []byte(why+"\n"), 0o644)
	if r.unwritten = err != nil; r.unwritten {
		return fmt.Errorf("replays are stopped, but a restart would begin again: %w", err)
	}
	return nil
}

// Resume ends Kill. An error says that the file could not be removed, and that
// nothing runs therefore.
func (r *Runner) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = ""
	if r.cfg.KillFile == "" {
		return nil
	}
	if err := os.Remove(r.cfg.KillFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replays stay stopped: %w: remove the file", err)
	}
	return nil
}

// Killed says why nothing runs; "" while it does.
func (r *Runner) Killed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killedNow()
}

func (r *Runner) killedNow() string {
	if r.killed == "" {
		return killedBy(r.cfg.KillFile)
	}
	if r.cfg.KillFile != "" {
		if _, err := os.Stat(r.cfg.KillFile); errors.Is(err, os.ErrNotExist) && !r.unwritten {
			r.killed = "" // somebody removed the file
		}
	}
	return r.killed
}

// killedBy is the reason that a kill file gives; "" where there is none.
func killedBy(file string) string {
	if file == "" {
		return ""
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	raw, err := os.ReadFile(file)
	if why := strings.TrimSpace(string(raw)); err == nil && why != "" {
		return why[:min(len(why), 200)]
	}
	return "the file " + file + " exists" // or can not be looked at: then rather not
}

// watch cuts legs short when the switch is set by file, or the breaker opens.
func (r *Runner) watch(ctx context.Context) error {
	tick := time.NewTicker(killEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.mu.Lock()
			if len(r.way) > 0 && r.killedNow() != "" {
				r.cut(errKilled)
			}
			r.look(r.now())
			r.mu.Unlock()
		case <-ctx.Done():
			return nil
		}
	}
}

// cut ends the legs under way.
func (r *Runner) cut(cause error) {
	for _, cancel := range r.way {
		cancel(cause)
	}
}
