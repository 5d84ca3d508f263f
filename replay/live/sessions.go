package live

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Request is one prompt: whole blocks, and tokens of its own after them.
type Request struct {
	ID       string
	At       time.Duration // after the run's start
	Home     int           // the worker that it is meant for, modulo their number
	Blocks   []int64
	Suffix   int // tokens after the last block, at least 1
	Generate int // tokens, at least 1
}

// Traffic is a stream of conversations.
type Traffic struct {
	Requests      int
	Every         time.Duration // mean time between requests; arrivals are Poisson
	Conversations int           // at once
	Turns         int           // of a conversation, then another takes its place
	System        int           // blocks of each of two system prompts that conversations begin with
	First, Grow   int           // blocks of the first turn, and of each more: 1 to twice that, on average this
	Generate      int           // tokens
	Affinity      float64       // share of requests meant for the worker of their conversation; the rest for any
	Seed          uint64
}

// DefaultTraffic is two and a half minutes of four conversations on each of two workers,
// which keep them a third to half busy; prompts have 1,100 tokens on average.
func DefaultTraffic() Traffic {
	return Traffic{
		Requests: 180, Every: 800 * time.Millisecond, Conversations: 8, Turns: 6,
		System: 4, First: 5, Grow: 3, Generate: 2, Affinity: 1, Seed: 1,
	}
}

// Stream makes the requests, in order of arrival: the same of the same traffic.
func (t Traffic) Stream() []Request {
	rng := rand.New(rand.NewPCG(t.Seed, 0x6c69766566))
	type conversation struct {
		blocks []int64
		turns  int
	}
	active := make([]conversation, max(1, t.Conversations))
	next := int64(1)
	fresh := func(into []int64, mean int) []int64 {
		for range 1 + rng.IntN(max(1, 2*mean)) {
			into = append(into, int64(t.Seed)<<32+next)
			next++
		}
		return into
	}
	out := make([]Request, t.Requests)
	at := 0.0
	for i := range out {
		at += rng.ExpFloat64() * t.Every.Seconds()
		home := rng.IntN(len(active))
		c := &active[home]
		if rng.Float64() >= t.Affinity {
			home = rng.IntN(1 << 16)
		}
		if c.turns == 0 {
			system := int64(-1 - rng.IntN(2))
			c.blocks = make([]int64, 0, 16)
			for b := range t.System {
				c.blocks = append(c.blocks, system*1000-int64(b))
			}
			c.blocks = fresh(c.blocks, t.First)
		} else {
			c.blocks = fresh(c.blocks[:len(c.blocks):len(c.blocks)], t.Grow)
		}
		out[i] = Request{
			ID: fmt.Sprintf("live-%d-%d", t.Seed, i), At: time.Duration(at * float64(time.Second)), Home: home,
			Blocks: c.blocks, Suffix: 8 + rng.IntN(24), Generate: max(1, t.Generate),
		}
		if c.turns++; c.turns >= t.Turns {
			c.turns = 0
		}
	}
	return out
}
