package llama

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CPU is how long the server's threads have run so far, and how long they waited for
// a CPU though they could have run: what others took of the machine. It is of
// /proc/PID/task/*/schedstat; elsewhere than on Linux the error is
// errors.ErrUnsupported.
func (s *Server) CPU() (ran, waited time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	if err == nil && len(threads) == 0 {
		err = os.ErrNotExist
	}
	for _, name := range threads {
		raw, failed := os.ReadFile(name)
		if failed != nil {
			continue // a thread that has ended
		}
		var on, off int64 // nanoseconds
		if _, err := fmt.Sscan(string(raw), &on, &off); err != nil {
			return 0, 0, fmt.Errorf("CPU time of llama-server: %s: %w", name, err)
		}
		ran, waited = ran+time.Duration(on), waited+time.Duration(off)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("CPU time of llama-server: %w", err)
	}
	return ran, waited, nil
}
