package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// report is what a run shows.
type report struct {
	Seed     uint64  `json:"seed"`
	Kills    []*kill `json:"kills"`
	Requests int     `json:"requests"`
	Accepted int     `json:"spans_accepted"`
	Resent   int64   `json:"spans_resent"`
	Doubled  int64   `json:"spans_sent_twice_by_client"`
	Parts    int     `json:"parts_in_kafka"`
	Read     int     `json:"parts_read_by_load"` // at least: what a loader read just before its end is not known
	InFlight int64   `json:"spans_in_flight"`
	Redo     int     `json:"parts_read_again"`
	Dead     int     `json:"dead_letters"`
	Seconds  float64 `json:"seconds"`
	Findings int     `json:"findings"`
}

func (r *report) sum() {
	for _, k := range r.Kills {
		r.InFlight, r.Redo = r.InFlight+k.InFlight, r.Redo+k.Redo
	}
}

// shown is nil where the run has shown something: all of its totals are above 0.
func (r *report) shown() error {
	var errs []error
	for _, total := range []struct {
		name string
		n    int64
	}{{"spans in flight at a kill", r.InFlight}, {"parts read again", int64(r.Redo)}, {"spans resent", r.Resent}, {"spans accepted", int64(r.Accepted)}} {
		if total.n <= 0 {
			errs = append(errs, fmt.Errorf("the run shows nothing: %s were %d", total.name, total.n))
		}
	}
	return errors.Join(errs...)
}

// table is for people.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  kill   at s  victim            in flight  read again   resent  down s\n")
	for i, k := range r.Kills {
		fmt.Fprintf(&b, "  %4d %6.1f  %-16s %10d %11d %8d %7.1f\n", i+1, k.Seconds, k.Victim, k.InFlight, k.Redo, k.Resent, k.Down)
	}
	fmt.Fprintf(&b, "\n  victim            kills  in flight  read again   resent  down s\n")
	by := map[string]*kill{}
	n := map[string]int{}
	for _, k := range r.Kills {
		if by[k.Victim] == nil {
			by[k.Victim] = &kill{Victim: k.Victim}
		}
		x := by[k.Victim]
		n[k.Victim]++
		x.InFlight, x.Redo, x.Resent, x.Down = x.InFlight+k.InFlight, x.Redo+k.Redo, x.Resent+k.Resent, x.Down+k.Down
	}
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		x := by[name]
		fmt.Fprintf(&b, "  %-16s %6d %10d %11d %8d %7.1f\n", name, n[name], x.InFlight, x.Redo, x.Resent, x.Down/float64(n[name]))
	}
	fmt.Fprintf(&b, "  %-16s %6d %10d %11d %8d\n", "all", len(r.Kills), r.InFlight, r.Redo, r.Resent)
	fmt.Fprintf(&b, "\n  seed %d, %.0f s: %d spans of %d requests accepted, %d of them sent again by a client that had its answer\n", r.Seed, r.Seconds, r.Accepted, r.Requests, r.Doubled)
	fmt.Fprintf(&b, "  parts in Kafka %d, read by load %d or more; dead letters about %d things\n", r.Parts, r.Read, r.Dead)
	fmt.Fprintf(&b, "  lost, doubled, or otherwise than sent: %d\n", r.Findings)
	return b.String()
}

// write puts the report as JSON where the environment asks for it.
func (r *report) write(t *testing.T) {
	t.Helper()
	path := os.Getenv("KVWHATIF_CRASH_JSON")
	if path == "" {
		return
	}
	body, err := json.MarshalIndent(r, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(body, '\n'), 0o644))
}
