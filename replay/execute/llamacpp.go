package execute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// LlamaConfig configures an executor on llama.cpp servers.
type LlamaConfig struct {
	Workers []LlamaWorker
	Tiers   []LlamaTier

	BlockTokens int         // of a prefix block; 0: a leg's prefix is spread evenly over its blocks
	Vocab       llama.Vocab // that prompts are made of; zero: llama.DefaultVocab

	// MaxBusy is how many requests a worker may be at when a leg starts. With 0 a
	// leg waits for an idle engine, and one that others joined is no measurement.
	MaxBusy  int
	GateWait time.Duration // how long a leg waits for that before it counts as not available; 0: 10 s
	Timeout  time.Duration // of a leg's preparation, and of its run; 0: 2 min
	// Wait, where there is one, tells the seconds that a busy worker has to do.
	Wait func(worker string) float64
}

// LlamaWorker is one llama-server. Slot is for replays alone: what it held is
// erased, and production must not be sent to it.
type LlamaWorker struct {
	Name    string // as candidates name it
	URL     string
	Slot    int
	SaveDir string // the server's --slot-save-path
}

// LlamaTier is where fetched state comes from.
type LlamaTier struct {
	Tier  schema.Tier
	Link  *llama.Link // between Dir and every worker
	Dir   string      // the replay namespace: never the one that production reads
	Quota int64       // bytes in Dir; the least recently used goes first; 0: 1 GiB
}

// Llama is an Executor on llama.cpp servers. A recompute prefills an erased slot;
// a fetch moves a saved slot over the tier's link, restores it, and computes the
// rest; route and resident find their prefix in the slot. What the server says it
// computed and what it reused proves the path: any other counts is ErrNotForced.
//
// A leg holds its worker's replay slot from Prepare to Cleanup, and the slot is
// empty before and after.
type Llama struct {
	cfg     LlamaConfig
	workers map[string]*llamaWorker
	tiers   []*llamaTier

	debts debts

	mu   sync.Mutex
	runs map[string]*llamaRun // that are prepared, by leg
}

type llamaWorker struct {
	LlamaWorker
	client *llama.Client
	lease  chan struct{} // holds one value while a leg has the slot
}

type llamaTier struct {
	LlamaTier
	*llamaStore
	built, hits atomic.Int64
}

const (
	defaultGateWait = 10 * time.Second
	defaultTimeout  = 2 * time.Minute
	defaultQuota    = 1 << 30
	gateEvery       = 20 * time.Millisecond
)

// NewLlama makes an executor. It asks no server yet.
func NewLlama(cfg LlamaConfig) (*Llama, error) {
	if len(cfg.Workers) == 0 {
		return nil, errors.New("llama.cpp executor: no workers: name at least one server")
	}
	if cfg.Vocab == (llama.Vocab{}) {
		cfg.Vocab = llama.DefaultVocab()
	}
	if cfg.Vocab.End <= cfg.Vocab.First {
		return nil, fmt.Errorf("llama.cpp executor: no token ids from %d up to %d", cfg.Vocab.First, cfg.Vocab.End)
	}
	if cfg.GateWait <= 0 {
		cfg.GateWait = defaultGateWait
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	e := &Llama{cfg: cfg, workers: map[string]*llamaWorker{}, runs: map[string]*llamaRun{}}
	for _, w := range cfg.Workers {
		client, err := llama.NewClient(w.URL)
		if err != nil {
			return nil, fmt.Errorf("llama.cpp executor: worker %q: %w", w.Name, err)
		}
		if w.Name == "" || e.workers[w.Name] != nil || w.SaveDir == "" || w.Slot < 0 {
			return nil, fmt.Errorf("llama.cpp executor: worker %q needs a name of its own, a slot and the server's slot-save-path", w.Name)
		}
		e.workers[w.Name] = &llamaWorker{LlamaWorker: w, client: client, lease: make(chan struct{}, 1)}
	}
	return e, e.openTiers()
}

func (e *Llama) openTiers() error {
	for _, t := range e.cfg.Tiers {
		if t.Link == nil || t.Dir == "" || t.Tier == schema.TierNone {
			return fmt.Errorf("llama.cpp executor: tier %q needs a link and a directory", t.Tier)
		}
		if t.Quota <= 0 {
			t.Quota = defaultQuota
		}
		store, err := openLlamaStore(t.Dir, t.Quota)
		if err != nil {
			return err
		}
		e.tiers = append(e.tiers, &llamaTier{LlamaTier: t, llamaStore: store})
	}
	return nil
}

// Capabilities says what can be forced where, in the order of the workers.
func (e *Llama) Capabilities() []Capability {
	var out []Capability
	for _, w := range e.cfg.Workers {
		for _, p := range []schema.Path{schema.PathFetch, schema.PathRecompute, schema.PathRoute, schema.PathResident} {
			c := Capability{Worker: w.Name, Path: p, Can: true}
			switch {
			case p == schema.PathFetch && len(e.tiers) == 0:
				c.Can, c.Why = false, "no tier has a directory for replays"
			case p == schema.PathRoute && len(e.workers) < 2:
				c.Can, c.Why = false, "there is no other worker to come from"
			}
			out = append(out, c)
		}
	}
	return out
}

// State is the load that a leg would meet now. While the worker is at other
// requests its GPU queue is what Wait says, and not known without that.
func (e *Llama) State(ctx context.Context, leg Leg) (State, error) {
	w, err := e.worker(&leg)
	if err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.GateWait)
	defer cancel()
	m, err := w.client.Metrics(ctx)
	if err != nil {
		return State{}, mapped(err)
	}
	s := State{Flows: e.flows(&leg)}
	if m.Processing+m.Deferred > 0 {
		s.GPUQueue = e.wait(w.Name)
	}
	return s, nil
}

func (e *Llama) wait(worker string) float64 {
	if e.cfg.Wait == nil {
		return math.NaN()
	}
	return e.cfg.Wait(worker)
}

// flows is how many transfers are on the leg's link; 0 where it moves nothing.
func (e *Llama) flows(leg *Leg) float64 {
	if t := e.tier(leg); t != nil && leg.Path == schema.PathFetch {
		return float64(t.Link.Flows())
	}
	return 0
}

func (e *Llama) worker(leg *Leg) (*llamaWorker, error) {
	if w := e.workers[leg.Candidate.Worker]; w != nil {
		return w, nil
	}
	return nil, fmt.Errorf("leg %s: %w: no worker %q among the llama.cpp servers", leg.ID, ErrRefused, leg.Candidate.Worker)
}

// tier is the leg's source: of its tier and, where it names one, its link.
func (e *Llama) tier(leg *Leg) *llamaTier {
	for _, t := range e.tiers {
		if t.Tier == leg.Candidate.Tier && (leg.Link == "" || t.Link.Name == leg.Link) {
			return t
		}
	}
	return nil
}

// mapped tells a server's errors apart as an executor's.
func mapped(err error) error {
	switch {
	case errors.Is(err, llama.ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, llama.ErrRefused):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
