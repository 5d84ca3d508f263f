package execute

import (
	"context"
	"errors"
)

// ErrNoState says that an executor can not tell the load of a worker: the idle gate
// then has nothing to go by, and stays open.
var ErrNoState = errors.New("the executor does not tell its load")

// Keeper is an Executor that keeps the KV of rejected fetches in a replay namespace
// of its own: a set by size, within a quota, never production's cache. What a fetch
// takes depends on the size of what is fetched, not on what it says, so one prefix
// of a size serves every leg of that size.
type Keeper interface {
	// Stock puts a prefix of each size (tokens) into each namespace, before legs run.
	// What it built is charged to the budget, also where it ends with an error; sizes
	// that are there cost nothing. An error that is ErrUnavailable may be tried again.
	Stock(ctx context.Context, model string, sizes []int64) ([]Stocked, error)
	// Namespaces says what is kept.
	Namespaces() []Namespace
}

// Stocked is a prefix that was built.
type Stocked struct {
	Worker string // that computed it
	Tokens int64
	Cost   Cost
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
