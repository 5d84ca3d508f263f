//go:build nightly

package crash

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	memoryTick = 500 * time.Millisecond
	// grownBy is how much more a process may hold, in MiB, in the last third of a
	// time than in the first: the garbage collector's room.
	grownBy = 24
)

// memory samples what processes hold.
type memory struct {
	stop  chan struct{}
	done  chan struct{}
	names []string
	mib   map[string][]float64
}

func watchMemory(r *rig, names ...string) *memory {
	m := &memory{stop: make(chan struct{}), done: make(chan struct{}), names: names, mib: map[string][]float64{}}
	go func() {
		defer close(m.done)
		for ticker := time.NewTicker(memoryTick); ; {
			for _, name := range names {
				if n, err := resident(r.keeperOf(name).pid()); err == nil {
					m.mib[name] = append(m.mib[name], n)
				}
			}
			select {
			case <-m.stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return m
}

// requireFlat ends the sampling.
func (m *memory) requireFlat(t *testing.T) {
	t.Helper()
	close(m.stop)
	<-m.done
	for _, name := range m.names {
		all := m.mib[name]
		third := len(all) / 3
		require.Positive(t, third, "%s was not seen often enough", name)
		first, last := median(all[:third]), median(all[len(all)-third:])
		t.Logf("%s held %.0f MiB in the first third and %.0f MiB in the last, at most %.0f MiB", name, first, last, slices.Max(all))
		require.LessOrEqual(t, last, first+grownBy, "%s grows", name)
	}
}

func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

var rss = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident is what a process holds in memory, MiB.
func resident(pid int) (float64, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := rss.FindSubmatch(body)
	if found == nil {
		return 0, fmt.Errorf("process %d has no memory", pid)
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024, err
}

func (r *rig) keeperOf(name string) *keeper {
	for _, k := range r.keepers {
		if k.name == name {
			return k
		}
	}
	panic("no process is named " + name)
}
