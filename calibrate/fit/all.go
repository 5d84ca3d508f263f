package fit

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/schema"
)

// DefaultMinN is how many observations a law needs.
const DefaultMinN = 50

// Laws is what a fit found.
type Laws struct {
	Window   schema.Window
	Prefill  []schema.PrefillFit
	Transfer []schema.TransferFit
	Restore  []schema.RestoreFit
	Queue    schema.QueueFit // Quality.N is 0 where it was not fitted
}

// All fits every law that o has minN observations for (0: DefaultMinN), and says
// of each other one why not.
func All(o Observations, minN int) (Laws, []Skipped) {
	if minN <= 0 {
		minN = DefaultMinN
	}
	out := Laws{Window: schema.Window{FromNanos: o.FromNanos, UntilNanos: o.UntilNanos, N: o.Requests}}
	var skipped []Skipped
	for _, g := range groups(o.Prefill, func(p PrefillObs) string { return p.Model + "\x00" + p.GPU }) {
		law, q, err := Prefill(g)
		if s, bad := skip("prefill", g[0].Model+" on "+g[0].GPU, q.N, minN, err); bad {
			skipped = append(skipped, s)
			continue
		}
		out.Prefill = append(out.Prefill, schema.PrefillFit{Model: g[0].Model, GPU: g[0].GPU, Law: law, Quality: q})
	}
	for _, g := range groups(o.Restore, func(r RestoreObs) string { return r.Model + "\x00" + r.Tier }) {
		law, q, err := Restore(g)
		if s, bad := skip("restore", g[0].Model+" from "+g[0].Tier, q.N, minN, err); bad {
			skipped = append(skipped, s)
			continue
		}
		out.Restore = append(out.Restore, schema.RestoreFit{Model: g[0].Model, Tier: g[0].Tier, Law: law, Quality: q})
	}
	transfers, missed := Transfers(o.Transfer, minN)
	out.Transfer, skipped = transfers, append(skipped, missed...)
	queue, err := Queue(o.Queue, o.Stall)
	if s, bad := skip("queue", "", queue.Quality.N, minN, err); bad {
		skipped = append(skipped, s)
	} else {
		out.Queue = queue
	}
	return out, skipped
}

func skip(term, key string, n int64, minN int, err error) (Skipped, bool) {
	switch {
	case n < int64(minN):
		return Skipped{term, key, int(n), fmt.Sprintf("fewer than %d observations", minN)}, true
	case err != nil:
		return Skipped{term, key, int(n), err.Error()}, true
	}
	return Skipped{}, false
}
