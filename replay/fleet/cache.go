package fleet

import (
	"fmt"
	"math/bits"
)

// caches is who holds which block.
type caches struct {
	workers []*lru
	store   *lru
	holders []uint64 // by block: the workers that hold it
	stored  []bool   // by block
}

func newCaches(cfg *Config, blocks int) *caches {
	c := &caches{store: newLRU(min(cfg.StoreBlocks, blocks)), holders: make([]uint64, blocks), stored: make([]bool, blocks)}
	for range cfg.Workers {
		c.workers = append(c.workers, newLRU(min(cfg.WorkerBlocks, blocks)))
	}
	return c
}

// hold records that a worker has computed or fetched a block and that the store
// has a copy.
func (c *caches) hold(worker, block int32) {
	c.load(worker, block)
	c.keep(block)
}

func (c *caches) load(worker, block int32) {
	if gone, added := c.workers[worker].use(block); added {
		c.holders[block] |= 1 << worker
		if gone >= 0 {
			c.holders[gone] &^= 1 << worker
		}
	}
}

func (c *caches) keep(block int32) {
	if gone, added := c.store.use(block); added {
		c.stored[block] = true
		if gone >= 0 {
			c.stored[gone] = false
		}
	}
}

// prefix is how many leading blocks are where.
type prefix struct {
	home    int    // on the worker asked about
	store   int    // in the shared store
	best    int    // on the workers that hold most
	holders uint64 // those workers
}

// find walks blocks from the front. Each count is of an unbroken run.
func (c *caches) find(blocks []int32, home int32) prefix {
	p := prefix{holders: c.all()}
	here := p.holders
	inStore := true
	for i, b := range blocks {
		here &= c.holders[b]
		inStore = inStore && c.stored[b]
		if here == 0 && !inStore {
			break
		}
		if here != 0 {
			p.best, p.holders = i+1, here
			if here>>home&1 == 1 {
				p.home = i + 1
			}
		}
		if inStore {
			p.store = i + 1
		}
	}
	return p
}

func (c *caches) all() uint64 { return ^uint64(0) >> (MaxWorkers - len(c.workers)) }

// eachWorker calls f with each worker of a set, in order.
func eachWorker(set uint64, f func(worker int32)) {
	for ; set != 0; set &= set - 1 {
		f(int32(bits.TrailingZeros64(set)))
	}
}

// Snapshot is the contents of every cache, least recently used first. A run that
// starts from it finds them as they were.
type Snapshot struct {
	Workers [][]int64 // block identities by worker
	Store   []int64
}

func (c *caches) snapshot(n *numbering) *Snapshot {
	s := &Snapshot{Store: c.store.contents(n)}
	for _, w := range c.workers {
		s.Workers = append(s.Workers, w.contents(n))
	}
	return s
}

// restore fills empty caches from a snapshot of a fleet of as many workers. A
// smaller cache keeps the most recent blocks.
// Every block has its number already.
func (c *caches) restore(s *Snapshot, n *numbering) error {
	if len(s.Workers) != len(c.workers) {
		return fmt.Errorf("fleet config: Warm is of %d workers, Workers is %d: take the snapshot from a fleet of the same size", len(s.Workers), len(c.workers))
	}
	for _, b := range s.Store {
		c.keep(n.number(b))
	}
	for w, blocks := range s.Workers {
		for _, b := range blocks {
			c.load(int32(w), n.number(b))
		}
	}
	return nil
}
