package app

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// kindLlama is llama.cpp servers in --executor.
const kindLlama = "llamacpp"

// LlamaSettings is what an executor on llama.cpp servers needs besides: legs have a
// slot of their own, and fetch from a directory of their own over a link that this
// process limits.
type LlamaSettings struct {
	Slot      string      `koanf:"slot"`       // number of the slot that is for replays alone, on every server
	SavePath  []string    `koanf:"save_path"`  // the servers' --slot-save-path as this process sees it: DIR for all, or WORKER=DIR each
	TierDir   string      `koanf:"tier_dir"`   // of the replay namespace: never one that production reads
	TierRate  units.Rate  `koanf:"tier_rate"`  // of each link between it and the servers
	TierLinks []string    `koanf:"tier_links"` // names of these links, as candidates name them
	TierQuota units.Bytes `koanf:"tier_quota"` // of each link's part of the namespace; 0: 1 GiB
}

// llama makes an executor on llama.cpp servers.
func (e EngineSettings) llama(servers []execute.ServingWorker) (execute.Executor, error) {
	shared, err := e.config()
	if err != nil {
		return nil, err
	}
	if e.Token != "" || e.MayDrop {
		return nil, errors.New("replay.engine.token and replay.engine.may_drop are not for llama.cpp servers: unset them (legs use a slot of their own)")
	}
	cfg := execute.LlamaConfig{BlockTokens: e.BlockTokens, Vocab: shared.Vocab, MaxBusy: e.MaxBusy, Timeout: legTimeout}
	if cfg.Workers, err = e.Llama.workers(servers); err != nil {
		return nil, err
	}
	if cfg.Tiers, err = e.Llama.tiers(shared.External); err != nil {
		return nil, err
	}
	ex, err := execute.NewLlama(cfg)
	if err != nil {
		return nil, fmt.Errorf("replay.executor: %w", err)
	}
	return ex, nil
}

func (s LlamaSettings) workers(servers []execute.ServingWorker) ([]execute.LlamaWorker, error) {
	slot, err := strconv.Atoi(s.Slot)
	if err != nil || slot < 0 {
		return nil, fmt.Errorf("replay.engine.llama.slot is %q: set it to the number of a slot that production is not sent to, such as 1 with --parallel 2", s.Slot)
	}
	dirs, all := map[string]string{}, ""
	for _, text := range s.SavePath {
		if name, dir, named := strings.Cut(text, "="); named {
			dirs[name] = dir
		} else if all != "" {
			return nil, fmt.Errorf("replay.engine.llama.save_path has %q and %q: give one directory for all servers, or WORKER=DIR for each", all, text)
		} else {
			all = text
		}
	}
	var out []execute.LlamaWorker
	for _, at := range servers {
		dir, named := dirs[at.Name]
		if delete(dirs, at.Name); !named {
			dir = all
		}
		if dir == "" {
			return nil, fmt.Errorf("replay.engine.llama.save_path has no directory for worker %q: set it to the server's --slot-save-path, which this process must reach too", at.Name)
		}
		out = append(out, execute.LlamaWorker{Name: at.Name, URL: at.URL, Slot: slot, SaveDir: dir})
	}
	for name := range dirs {
		return nil, fmt.Errorf("replay.engine.llama.save_path has a directory for worker %q, which --executor does not have", name)
	}
	return out, nil
}

// tiers are a link each, with its own part of the directory: a state that was built
// for one stays with it.
func (s LlamaSettings) tiers(tier schema.Tier) ([]execute.LlamaTier, error) {
	switch {
	case tier == schema.TierNone && s.TierDir == "" && len(s.TierLinks) == 0 && s.TierRate == 0:
		return nil, nil
	case tier == schema.TierNone || s.TierDir == "" || len(s.TierLinks) == 0 || s.TierRate <= 0:
		return nil, errors.New("fetches need all of replay.engine.tier, replay.engine.llama.tier_dir, tier_rate (such as 1Gbit/s) and tier_links: set the others, or none for no fetches")
	}
	links := slices.Compact(slices.Sorted(slices.Values(s.TierLinks)))
	out := make([]execute.LlamaTier, 0, len(links))
	for _, name := range links {
		link, err := llama.NewLink(name, float64(s.TierRate))
		if err != nil {
			return nil, fmt.Errorf("replay.engine.llama.tier_rate: %w", err)
		}
		part := url.PathEscape(name)
		if name == "" || part == "." || part == ".." {
			return nil, fmt.Errorf("replay.engine.llama.tier_links has %q: name a link as candidates do", name)
		}
		out = append(out, execute.LlamaTier{Tier: tier, Link: link, Dir: filepath.Join(s.TierDir, part), Quota: int64(s.TierQuota)})
	}
	return out, nil
}
