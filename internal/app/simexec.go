package app

import (
	"context"
	"fmt"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
)

// simExecutor runs legs inside a simulation that another goroutine advances: it is
// the executor of `kvwhatif simulate --legs`.
type simExecutor struct {
	legs   chan legRequest
	states chan stateRequest
	ended  chan struct{} // closed when the simulation will run no more legs
}

type legRequest struct {
	leg   execute.Leg
	reply chan legReply // buffered
}

type legReply struct {
	result execute.Result
	err    error
}

type stateRequest struct {
	leg   execute.Leg
	reply chan stateReply // buffered
}

type stateReply struct {
	state execute.State
	err   error
}

func newSimExecutor() *simExecutor {
	return &simExecutor{legs: make(chan legRequest), states: make(chan stateRequest), ended: make(chan struct{})}
}

// Prepare has nothing to do: the simulator keeps a replay namespace of its own.
func (e *simExecutor) Prepare(context.Context, execute.Leg) (execute.Cost, error) {
	return execute.Cost{}, nil
}

// Cleanup has nothing to do.
func (e *simExecutor) Cleanup(context.Context, execute.Leg) error { return nil }

// Run hands the leg to the simulation and waits for its first token.
func (e *simExecutor) Run(ctx context.Context, leg execute.Leg) (execute.Result, error) {
	req := legRequest{leg: leg, reply: make(chan legReply, 1)}
	select {
	case e.legs <- req:
	case <-e.ended:
		return execute.Result{}, fmt.Errorf("%w: the simulation has ended", execute.ErrUnavailable)
	case <-ctx.Done():
		return execute.Result{}, ctx.Err()
	}
	select {
	case r := <-req.reply:
		return r.result, r.err
	case <-e.ended:
		return execute.Result{}, fmt.Errorf("%w: the simulation ended during the leg", execute.ErrUnavailable)
	case <-ctx.Done():
		return execute.Result{}, ctx.Err()
	}
}

// State is the load that the leg would meet now.
func (e *simExecutor) State(ctx context.Context, leg execute.Leg) (execute.State, error) {
	req := stateRequest{leg: leg, reply: make(chan stateReply, 1)}
	select {
	case e.states <- req:
		r := <-req.reply
		return r.state, r.err
	case <-e.ended:
		return execute.State{}, fmt.Errorf("%w: the simulation has ended", execute.ErrUnavailable)
	case <-ctx.Done():
		return execute.State{}, ctx.Err()
	}
}

// simHost is the side of the goroutine that owns the simulation.
type simHost struct {
	executor *simExecutor
	traffic  *traffic
	running  map[uint64]legRequest
}

// take starts the legs that have come, without waiting for one.
func (h *simHost) take() {
	for {
		select {
		case req := <-h.executor.legs:
			h.inject(req)
		case req := <-h.executor.states:
			req.reply <- h.state(req.leg)
		default:
			return
		}
	}
}

func (h *simHost) inject(req legRequest) {
	id := req.leg.Seed()
	if _, again := h.running[id]; again {
		req.reply <- legReply{err: fmt.Errorf("%w: leg %s is running already", execute.ErrUnavailable, req.leg.ID)}
		return
	}
	err := h.traffic.sim.Inject(fleet.Leg{ID: id, PromptTokens: req.leg.TokensPrompt, Candidate: req.leg.Candidate})
	if err != nil {
		req.reply <- legReply{err: fmt.Errorf("%w: %w", execute.ErrRefused, err)}
		return
	}
	h.running[id] = req
}

func (h *simHost) state(leg execute.Leg) stateReply {
	worker, ok := h.traffic.sim.WorkerIndex(leg.Candidate.Worker)
	if !ok {
		return stateReply{err: fmt.Errorf("%w: no worker %q in this fleet", execute.ErrRefused, leg.Candidate.Worker)}
	}
	s := h.traffic.sim.StateOf(worker, leg.Seed())
	return stateReply{state: execute.State{GPUQueue: s.GPUQueue, Flows: s.Rivals}}
}

// answer gives the legs that have had their first token back to who asked.
func (h *simHost) answer(legs []fleet.LegOutcome) {
	for i := range legs {
		if req, ok := h.running[legs[i].Leg.ID]; ok {
			delete(h.running, legs[i].Leg.ID)
			req.reply <- legReply{result: h.traffic.result(&legs[i])}
		}
	}
}
