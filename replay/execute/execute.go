// Package execute runs the legs of a replay. An Executor forces one path of one
// past decision on something that can run it, a fleet or a simulator of one, and
// says what it took, at which load, and what it cost. The suite that every
// executor passes is executetest.
package execute

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Executor runs legs. It is safe for concurrent use. Run is idempotent by the
// leg's ID where it can be: the same leg may come again after a crash.
type Executor interface {
	// Prepare puts in place what the leg needs, such as a prefix of its size in
	// the replay namespace of a tier: never in production's cache. Its cost is
	// charged to the budget, and is not part of the result's.
	Prepare(ctx context.Context, leg Leg) (Cost, error)
	// Run runs the leg to its first token. It ends with the context. An error
	// that is ErrUnavailable may be tried again; any other is final.
	Run(ctx context.Context, leg Leg) (Result, error)
	// Cleanup removes what Prepare and Run left behind. It may be called more
	// than once, and for a leg that never ran.
	Cleanup(ctx context.Context, leg Leg) error
}

// Prober is an Executor that can tell the load a leg would meet now, which the
// idle gate needs.
type Prober interface {
	State(ctx context.Context, leg Leg) (State, error)
}

// Capable is an Executor that knows beforehand what it can force.
type Capable interface {
	Capabilities() []Capability
}

// Capability says whether a path can be forced on a worker.
type Capability struct {
	Worker string
	Path   schema.Path
	Can    bool
	Why    string // why not; "" where it can
}

var (
	// ErrUnavailable says that the executor can not be reached or is busy; the
	// leg did not run, and may be tried again.
	ErrUnavailable = errors.New("the executor is not available")
	// ErrRefused says that the executor will never run this leg, for instance
	// because it does not have its worker.
	ErrRefused = errors.New("the executor refuses the leg")
	// ErrNotForced says that the leg ran, but not by the path that it asks for: it
	// measured something else.
	ErrNotForced = errors.New("the path was not forced")
)

// State is the load that a request or leg meets. NaN is "not known".
type State struct {
	GPUQueue float64 // wait for the worker's GPU, seconds, as the worker reports it
	Flows    float64 // other transfers on the link
}

// Cost is what is charged to the budget.
type Cost struct {
	GPUSeconds float64 `json:"gpu_seconds"`
	Bytes      float64 `json:"bytes"`
}

// Leg is what to run. In JSON a missing number is null.
type Leg struct {
	ID        string // 32 hex digits, a function of the decision and the kind
	Kind      schema.Leg
	Of        schema.TraceID
	OfSpan    schema.SpanID
	Plan      string
	Stratum   string
	Batch     string  // legs of a batch are run together and share noise
	Inclusion float64 // the probability with which it was drawn, (0, 1]

	Path           schema.Path
	CandidateIndex int
	Candidate      schema.Candidate // what to run, on Candidate.Worker
	Model          string
	GPU            string
	Link           string // that the bytes go over; "" where none do
	TokensPrompt   int64
	TokensPrefix   int64   // −1 where not known
	PrefixBlocks   []int64 // block hashes; tokens are made from them, so equal prefixes give equal blocks
	Salt           string  // cache salt of this leg alone

	DecidedNanos  int64 // Unix nanoseconds
	Decision      State // load at the decision
	ModelDecision float64
}

// Seed is a number of the leg's own, from its ID, for draws that must be fresh.
func (l *Leg) Seed() uint64 {
	var b [8]byte
	if raw, err := hex.DecodeString(l.ID); err == nil {
		copy(b[:], raw)
	}
	return binary.BigEndian.Uint64(b[:])
}

// Result is what a leg came to. Observed has at least a TTFT.
type Result struct {
	StartNanos  int64 // Unix nanoseconds
	EndNanos    int64 // first token
	State       State // load that the leg met when it started
	Observed    schema.Observed
	ModelReplay schema.Seconds // m_b at State, where the executor knows the terms; else Predict gives it
	Cost        Cost
}
