package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
)

// Fleet is servers that run, and what their coordinator knows of them.
type Fleet struct {
	cfg     Config
	dir     string
	vocab   llama.Vocab
	workers []*worker

	mu   sync.Mutex // over what slots and tier hold
	tier *tier
}

// worker is one server as the coordinator sees it.
type worker struct {
	WorkerConfig
	server *llama.Server
	link   *llama.Link
	line   line
	slots  []slot // those of production; the one after them is the replays'
	tick   uint64 // of the last use of a slot
}

// slot is what a slot will hold once the requests decided so far have run.
type slot struct {
	blocks []int64
	used   uint64
}

// Start starts the servers in dir, which it makes. The fleet must be closed.
func Start(ctx context.Context, dir string, cfg Config) (*Fleet, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, dir: dir, vocab: llama.Vocab{First: llama.FirstToken, End: int32(cfg.Shape.Vocab)}}
	model, err := llama.EnsureModel(dir, cfg.Shape)
	if err != nil {
		return nil, err
	}
	if f.tier, err = newTier(filepath.Join(dir, "tier")); err != nil {
		return nil, err
	}
	f.workers = make([]*worker, len(cfg.Workers))
	group, inner := errgroup.WithContext(ctx)
	for i, w := range cfg.Workers {
		group.Go(func() (err error) {
			f.workers[i], err = f.startWorker(inner, w, model)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the live fleet: %w", err), f.Close())
	}
	return f, nil
}

func (f *Fleet) startWorker(ctx context.Context, cfg WorkerConfig, model string) (*worker, error) {
	link, err := llama.NewLink(cfg.Link, cfg.Rate)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(f.dir, cfg.Name)
	if err := os.RemoveAll(dir); err != nil { // of an earlier run
		return nil, err
	}
	server, err := llama.StartServer(ctx, llama.ServerConfig{
		Binary: f.cfg.Binary, Model: model, Dir: dir, Slots: f.cfg.Sessions + 1, Context: f.cfg.Context + f.cfg.BlockTokens,
	})
	if err != nil {
		return nil, err
	}
	return &worker{WorkerConfig: cfg, server: server, link: link, slots: make([]slot, f.cfg.Sessions)}, nil
}

// CPU is llama.Server.CPU of all servers together.
func (f *Fleet) CPU() (ran, waited time.Duration, err error) {
	for _, w := range f.workers {
		r, wait, err := w.server.CPU()
		if err != nil {
			return 0, 0, err
		}
		ran, waited = ran+r, waited+wait
	}
	return ran, waited, nil
}

// Forget begins anew: no slot of production is reused, and the tier is empty. No
// request may be under way.
func (f *Fleet) Forget() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		w.slots, w.tick = make([]slot, len(w.slots)), 0
	}
	f.tier, err = newTier(f.tier.dir)
	return err
}

// Close ends the servers. It may be called more than once.
func (f *Fleet) Close() (err error) {
	for _, w := range f.workers {
		if w != nil {
			err = errors.Join(err, w.server.Close())
		}
	}
	return err
}

// Executor runs legs on the fleet: in each worker's last slot, over the same links,
// from directories that production does not read. A leg waits for an idle engine,
// and one that production joined is tried again.
func (f *Fleet) Executor() (*execute.Llama, error) {
	cfg := execute.LlamaConfig{BlockTokens: f.cfg.BlockTokens, Vocab: f.vocab, Wait: f.backlog}
	for _, w := range f.workers {
		cfg.Workers = append(cfg.Workers, execute.LlamaWorker{
			Name: w.Name, URL: w.server.URL, Slot: len(w.slots), SaveDir: w.server.SaveDir,
		})
		cfg.Tiers = append(cfg.Tiers, execute.LlamaTier{Tier: Tier, Link: w.link, Dir: filepath.Join(f.dir, "replay", w.Link)})
	}
	return execute.NewLlama(cfg)
}

func (f *Fleet) backlog(name string) float64 {
	for _, w := range f.workers {
		if w.Name == name {
			return w.line.backlog()
		}
	}
	return 0
}
