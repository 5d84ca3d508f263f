package execute

import (
	"context"
	"errors"
)

// ErrNoState says that an executor can not tell the load of a worker: the idle gate
// then has nothing to go by, and stays open.
var ErrNoState = errors.New("the executor does not tell its load")

// Keeper is an Executor that keeps the KV of rejected fetches in a replay namespace
// of its own: a fixed set by size, within a quota, never production's cache.
type Keeper interface {
	// Stock puts a prefix of each size (tokens) into the namespace, before legs run,
	// and says what that cost: it is charged to the budget. Sizes that are there
	// cost nothing. What it can not place it says by an error, with the cost of the
	// rest.
	Stock(ctx context.Context, model string, sizes []int64) (Cost, error)
	// Namespaces says what is kept.
	Namespaces() []Namespace
}

// Namespace is one replay namespace.
type Namespace struct {
	Tier  string  `json:"tier"`
	Link  string  `json:"link"`
	Sizes []int64 `json:"sizes"` // tokens, rising
	Bytes int64   `json:"bytes"`
	Quota int64   `json:"quota"` // bytes
	Built int64   `json:"built"` // prefixes, since the start
	Hits  int64   `json:"hits"`  // legs that found theirs
}
