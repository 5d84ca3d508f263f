package execute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/schema"
)

// ServingConfig configures an executor on servers that answer HTTP: vLLM,
// SGLang, or anything with OpenAI's completions.
type ServingConfig struct {
	Workers []ServingWorker
	Model   string // as the servers name it; "": the first that each serves
	Token   string // bearer token; "" for none

	BlockTokens int         // of a prefix block; 0: a leg's prefix is spread evenly over its blocks
	Vocab       llama.Vocab // that prompts are made of; zero: ServingVocab

	// MaxBusy is how many requests a worker may be at when a leg starts. With 0 a
	// leg waits for an idle engine, and one that others joined is no measurement.
	MaxBusy  int
	GateWait time.Duration // how long a leg waits for that before it counts as not available; 0: 10 s
	Timeout  time.Duration // of a leg's preparation, and of its run; 0: 2 min

	// MayDrop says that a server's own prefix cache may be dropped, whole, before
	// a fetch: production's blocks in it too. Set it only for servers of which
	// nobody would miss them. Without it no fetch can be forced.
	MayDrop bool
	// External is the tier beside the engines' own caches, where they have one.
	External schema.Tier
	// ExternalBlock is how many tokens that tier keeps together; 0: 256, LMCache's.
	ExternalBlock int
	// Namespace is the salt of what fetches find in that tier; "": kvwhatif-replay.
	// It holds one prefix of at most NamespaceTokens (0: 32768), of which each
	// fetch reads a part.
	Namespace       string
	NamespaceTokens int
	// Params is sent with each request as kv_transfer_params, to vLLM.
	Params map[string]any
}

// ServingWorker is one server.
type ServingWorker struct {
	Name string // as candidates name it
	URL  string
}

// ServingVocab is token ids that vocabularies of 32,000 and more have.
func ServingVocab() llama.Vocab { return llama.Vocab{First: 1000, End: 30000} }

// Serving is an Executor on such servers. Nothing that a leg computes can be hit
// by production, and the reverse: it has a salt of its own, or, where the engine
// knows no salts, random tokens. Its blocks do take room in the engine's cache,
// where the least recently used go first. A leg whose answer or counters say
// that other tokens were reused than it asks for is ErrNotForced.
//
// A worker runs one leg at a time, from its Prepare to its Cleanup.
type Serving struct {
	cfg     ServingConfig
	kind    string
	workers map[string]*servingWorker

	debts debts

	mu   sync.Mutex
	runs map[string]*servingRun // that are prepared, by leg
}

type servingWorker struct {
	ServingWorker
	engine engine
	lease  chan struct{} // holds one value while a leg has the worker

	mu    sync.Mutex
	facts *facts // nil before it was probed
	built int    // tokens of the namespace's prefix that were computed through it
}

// engine is what the executor needs of a kind of server.
type engine interface {
	// probe finds out what this server and version can do.
	probe(ctx context.Context) (facts, error)
	// ask runs a request to its end, with one token generated.
	ask(ctx context.Context, q question) (served, error)
	// load is how many requests it is at, and how many wait. NaN: it does not say.
	load(ctx context.Context) (running, waiting float64, err error)
	// counters are what it did since it started; nil: it does not say.
	counters(ctx context.Context) (*counters, error)
	// drop empties its own prefix cache; false: not now.
	drop(ctx context.Context) (bool, error)
}

// facts are what a probe found. A reason that is "" means that it can.
type facts struct {
	version  string
	model    string
	block    int    // tokens of a block in its own cache
	salted   bool   // salts part requests
	priority bool   // it runs low priority after others
	resident string // why no prefix can be put into its own cache and found there
	fetch    string // why no prefix can be fetched
}

type question struct {
	id       string
	model    string
	prompt   []int32
	salt     string
	priority bool // it runs by priority: others first
}

const (
	defaultExternalBlock   = 256
	defaultNamespace       = "kvwhatif-replay"
	defaultNamespaceTokens = 32768
)

func newServing(kind string, cfg ServingConfig, open func(c *servingClient, cfg *ServingConfig) engine) (*Serving, error) {
	if len(cfg.Workers) == 0 {
		return nil, fmt.Errorf("%s executor: no workers: name at least one server", kind)
	}
	cfg.setDefaults()
	if cfg.Vocab.End <= cfg.Vocab.First || cfg.Vocab.First < 0 {
		return nil, fmt.Errorf("%s executor: no token ids from %d up to %d", kind, cfg.Vocab.First, cfg.Vocab.End)
	}
	e := &Serving{cfg: cfg, kind: kind, workers: map[string]*servingWorker{}, runs: map[string]*servingRun{}}
	for _, w := range cfg.Workers {
		client, err := newServingClient(w.URL, cfg.Token)
		if err != nil {
			return nil, fmt.Errorf("%s executor: worker %q: %w", kind, w.Name, err)
		}
		if w.Name == "" || e.workers[w.Name] != nil {
			return nil, fmt.Errorf("%s executor: worker %q at %s needs a name of its own", kind, w.Name, w.URL)
		}
		e.workers[w.Name] = &servingWorker{ServingWorker: w, engine: open(client, &e.cfg), lease: make(chan struct{}, 1)}
	}
	return e, nil
}

func (c *ServingConfig) setDefaults() {
	if c.Vocab == (llama.Vocab{}) {
		c.Vocab = ServingVocab()
	}
	if c.GateWait <= 0 {
		c.GateWait = defaultGateWait
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.ExternalBlock <= 0 {
		c.ExternalBlock = defaultExternalBlock
	}
	if c.Namespace == "" {
		c.Namespace = defaultNamespace
	}
	if c.NamespaceTokens <= 0 {
		c.NamespaceTokens = defaultNamespaceTokens
	}
}

// Probe finds out what each server can force, by asking it: some requests of a
// few blocks. A server that is not there now is probed at its first leg.
func (e *Serving) Probe(ctx context.Context) error {
	var errs []error
	for _, w := range e.cfg.Workers {
		if _, err := e.workers[w.Name].probed(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s executor: worker %q: %w", e.kind, w.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (w *servingWorker) probed(ctx context.Context) (facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts == nil {
		f, err := w.engine.probe(ctx)
		if err != nil {
			return facts{}, fmt.Errorf("find out what the server can do: %w", err)
		}
		w.facts = &f
	}
	return *w.facts, nil
}

// Capabilities says what can be forced where, in the order of the workers.
func (e *Serving) Capabilities() []Capability {
	var out []Capability
	for _, w := range e.cfg.Workers {
		for _, p := range []schema.Path{schema.PathFetch, schema.PathRecompute, schema.PathRoute, schema.PathResident} {
			why := e.whyNot(e.workers[w.Name], p)
			out = append(out, Capability{Worker: w.Name, Path: p, Can: why == "", Why: why})
		}
	}
	return out
}

// whyNot says why a path can not be forced on a worker, or "".
func (e *Serving) whyNot(w *servingWorker, p schema.Path) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.facts == nil:
		return "the server has not been probed yet"
	case p == schema.PathFetch:
		return w.facts.fetch
	case p == schema.PathRoute && len(e.workers) < 2:
		return "there is no other worker to come from"
	case p == schema.PathRoute, p == schema.PathResident:
		return w.facts.resident
	}
	return ""
}

// Versions are what the servers that were probed said they are, by worker.
func (e *Serving) Versions() []string {
	var out []string
	for name, w := range e.workers {
		w.mu.Lock()
		if w.facts != nil {
			out = append(out, name+": "+e.kind+" "+w.facts.version)
		}
		w.mu.Unlock()
	}
	slices.Sort(out)
	return out
}

// State is the load that a leg would meet now. A busy engine does not say for how
// long, and none says what is on its links.
func (e *Serving) State(ctx context.Context, leg Leg) (State, error) {
	w, err := e.worker(&leg)
	if err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.GateWait)
	defer cancel()
	running, waiting, err := w.engine.load(ctx)
	if err != nil {
		return State{}, err
	}
	if math.IsNaN(running + waiting) {
		return State{}, fmt.Errorf("worker %s: %w", w.Name, ErrNoState)
	}
	return stateOf(running+waiting, leg.Path), nil
}

func stateOf(busy float64, path schema.Path) (s State) {
	if busy != 0 {
		s.GPUQueue = math.NaN()
	}
	if path == schema.PathFetch {
		s.Flows = math.NaN()
	}
	return s
}

func (e *Serving) worker(leg *Leg) (*servingWorker, error) {
	if w := e.workers[leg.Candidate.Worker]; w != nil {
		return w, nil
	}
	return nil, fmt.Errorf("leg %s: %w: no worker %q among the %s servers", leg.ID, ErrRefused, leg.Candidate.Worker, e.kind)
}
