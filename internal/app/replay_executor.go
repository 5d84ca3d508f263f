package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/kvwhatif/kvwhatif/internal/llama"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
)

// EngineSettings is what an executor on serving engines may do, and how their
// caches are made.
type EngineSettings struct {
	Model           string `koanf:"model"`               // as the servers name it; empty: the first of each
	Token           string `koanf:"token" secret:"true"` // bearer token of the servers
	Tier            string `koanf:"tier"`                // of the cache beside the engines: cpu, disk, object or peer; empty: no fetches
	TierTokens      int    `koanf:"tier_tokens"`         // that it keeps together; 0: 256
	MayDrop         bool   `koanf:"may_drop"`            // a server's own prefix cache may be dropped for a fetch, production's blocks too
	MaxBusy         int    `koanf:"max_busy"`            // requests that a server may be at when a leg starts; 0: idle
	BlockTokens     int    `koanf:"block_tokens"`        // of a prefix block of decisions; 0: a prefix is spread evenly over its blocks
	Tokens          string `koanf:"tokens"`              // token ids that prompts are made of, FIRST-END; empty: 1000-30000
	NamespaceTokens int    `koanf:"namespace_tokens"`    // of the prefix that fetches read; 0: 32768

	Llama LlamaSettings `koanf:"llama"` // of llama.cpp servers only
}

// executorHelp says what --executor may be.
const executorHelp = "give --executor URL of what runs the legs: http://... of `kvwhatif simulate --legs` or another that answers " + execute.LegsPath +
	", or servers of an engine, [WORKER=]vllm+http://HOST:PORT, sglang+http://..., llamacpp+http://... or openai+http://..., with commas between them"

// servings makes an executor on servers of an engine, by the engine's name.
var servings = map[string]func(execute.ServingConfig) (*execute.Serving, error){
	"vllm": execute.NewVLLM, "sglang": execute.NewSGLang, "openai": execute.NewOpenAI,
}

// executor is what runs the legs, as replay.executor names it.
func (s ReplaySettings) executor() (execute.Executor, error) {
	if s.Executor == "" {
		return nil, errors.New("no executor: " + executorHelp)
	}
	kind, workers, err := parseServers(s.Executor)
	if err != nil {
		return nil, fmt.Errorf("replay.executor: %w", err)
	}
	if kind == "" {
		ex, err := execute.NewSimulator(s.Executor, legTimeout)
		if err != nil {
			return nil, fmt.Errorf("replay.executor: %w", err)
		}
		return ex, nil
	}
	if kind == kindLlama {
		return s.Engine.llama(workers)
	}
	cfg, err := s.Engine.config()
	if err != nil {
		return nil, err
	}
	cfg.Workers, cfg.Timeout = workers, legTimeout
	ex, err := servings[kind](cfg)
	if err != nil {
		return nil, fmt.Errorf("replay.executor: %w", err)
	}
	return ex, nil
}

// parseServers reads [WORKER=]KIND+URL, with commas between. kind is "" where it is
// a plain URL.
func parseServers(text string) (kind string, workers []execute.ServingWorker, err error) {
	for i, part := range strings.Split(text, ",") {
		name, at, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named || strings.Contains(name, "/") {
			name, at = "", strings.TrimSpace(part)
		}
		this, rest, ok := strings.Cut(at, "+")
		if !ok || (servings[this] == nil && this != kindLlama) {
			if i == 0 && name == "" && !strings.Contains(text, ",") {
				return "", nil, nil
			}
			return "", nil, fmt.Errorf("%q is no server: %s", part, executorHelp)
		}
		if kind != "" && this != kind {
			return "", nil, fmt.Errorf("%q is of another engine than %q: name servers of one engine", part, kind)
		}
		u, err := url.Parse(rest)
		if err != nil {
			return "", nil, fmt.Errorf("%q: %w", part, err)
		}
		if name == "" {
			name = u.Host
		}
		kind, workers = this, append(workers, execute.ServingWorker{Name: name, URL: rest})
	}
	return kind, workers, nil
}

func (e EngineSettings) config() (execute.ServingConfig, error) {
	cfg := execute.ServingConfig{
		Model: e.Model, Token: e.Token, ExternalBlock: e.TierTokens, MayDrop: e.MayDrop, MaxBusy: e.MaxBusy,
		BlockTokens: e.BlockTokens, NamespaceTokens: e.NamespaceTokens,
	}
	var ok bool
	if cfg.External, ok = schema.ParseTier(e.Tier); !ok {
		return cfg, fmt.Errorf("replay.engine.tier is %q: set it to cpu, disk, object or peer", e.Tier)
	}
	if e.Tokens == "" {
		return cfg, nil
	}
	first, end, _ := strings.Cut(e.Tokens, "-")
	from, err := strconv.ParseInt(first, 10, 32)
	until, err2 := strconv.ParseInt(end, 10, 32)
	if errors.Join(err, err2) != nil || from < 0 || until <= from {
		return cfg, fmt.Errorf("replay.engine.tokens is %q: set it to two token ids, such as 1000-30000", e.Tokens)
	}
	cfg.Vocab = llama.Vocab{First: int32(from), End: int32(until)}
	return cfg, nil
}

// probeExecutor finds out what an executor on engines can force, and logs it. A
// server that is not there yet is asked again at its first leg.
func probeExecutor(ctx context.Context, ex execute.Executor, log *slog.Logger) error {
	capable, ok := ex.(execute.Capable)
	if !ok {
		return nil
	}
	if serving, ok := ex.(*execute.Serving); ok {
		if err := serving.Probe(ctx); errors.Is(err, execute.ErrUnavailable) {
			log.Warn("replay: an engine does not answer yet, and is asked again at its first leg", "error", err)
			return nil
		} else if err != nil {
			return fmt.Errorf("replay.executor: %w", err)
		}
		log.Info("replay: engines", "versions", serving.Versions())
	}
	for _, c := range capable.Capabilities() {
		if !c.Can {
			log.Warn("replay: a path can not be forced, its legs will be refused", "worker", c.Worker, "path", c.Path.String(), "why", c.Why)
		}
	}
	return nil
}
