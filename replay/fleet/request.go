package fleet

import (
	"fmt"
	"math"
	"slices"
)

// Request is one request as it comes in.
type Request struct {
	At           float64 // seconds in the requests' own time, on a grid of Config.Grid
	PromptTokens int64   // at least 1
	OutputTokens int64   // at least 0
	Blocks       []int64 // identities of the prompt's blocks of BlockTokens, 0 or more; kept, not copied
}

// arrival is a request in the run's time, with dense block numbers.
type arrival struct {
	at     float64
	index  int32 // among the requests given
	blocks []int32
}

// schedule puts requests in order of arrival: spread over the grid by the seed,
// then sped up.
func schedule(cfg *Config, requests []Request, n *numbering) ([]arrival, error) {
	out := make([]arrival, len(requests))
	all := make([]int32, 0, countBlocks(requests))
	for i := range requests {
		r := &requests[i]
		if !(r.At >= 0) || math.IsInf(r.At, 0) || r.PromptTokens < 1 || r.OutputTokens < 0 || r.PromptTokens > math.MaxInt32 {
			return nil, fmt.Errorf("fleet request %d: at %v s, %d prompt and %d output tokens: the time must be finite and not negative, the prompt 1 token or more", i, r.At, r.PromptTokens, r.OutputTokens)
		}
		spread := cfg.Grid * uniform(key(cfg.Seed, uint64(i), 0, stageArrival))
		from := len(all)
		for _, b := range r.Blocks {
			all = append(all, n.number(b))
		}
		out[i] = arrival{at: (r.At + spread) / cfg.SpeedUp, index: int32(i), blocks: all[from:len(all):len(all)]}
	}
	slices.SortFunc(out, func(a, b arrival) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return int(a.index - b.index)
	})
	return out, nil
}

func countBlocks(requests []Request) int {
	n := 0
	for i := range requests {
		n += len(requests[i].Blocks)
	}
	return n
}

// numbering gives block identities dense numbers.
type numbering struct {
	byName map[int64]int32 // nil where identities are dense already
	names  []int64         // by number, where byName is in use
	count  int
}

func newNumbering(requests []Request, warm *Snapshot) *numbering {
	low, high, total := int64(0), int64(-1), countBlocks(requests)
	see := func(ids []int64) {
		for _, b := range ids {
			low, high = min(low, b), max(high, b)
		}
	}
	for i := range requests {
		see(requests[i].Blocks)
	}
	if warm != nil {
		see(warm.Store)
		total += len(warm.Store)
		for _, w := range warm.Workers {
			see(w)
			total += len(w)
		}
	}
	if low >= 0 && high < int64(4*total+1024) {
		return &numbering{count: int(high + 1)}
	}
	return &numbering{byName: make(map[int64]int32, total)}
}

func (n *numbering) number(name int64) int32 {
	if n.byName == nil {
		return int32(name)
	}
	i, ok := n.byName[name]
	if !ok {
		i = int32(n.count)
		n.count++
		n.byName[name], n.names = i, append(n.names, name)
	}
	return i
}

func (n *numbering) name(i int32) int64 {
	if n.byName == nil {
		return int64(i)
	}
	return n.names[i]
}
