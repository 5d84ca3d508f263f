package execute

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// LegsPath is where a Handler serves.
const LegsPath = "/v1/legs"

// remembered is how many finished legs a Handler can answer again.
const remembered = 4096

// StatePath is where a Handler tells, of an Executor that is a Prober, the load that
// a leg would meet now: the leg is posted as to LegsPath, the answer is such as
// {"gpu_queue": 0.1, "flows": 2}, with null for what is not known. Where nothing is
// served there, the idle gate has nothing to go by.
const StatePath = "/v1/state"

// Handler serves an Executor to Simulator clients at LegsPath: it prepares, runs
// and cleans up each leg, and answers with the result, the cost of preparation
// included. A leg that comes again, while it runs or after, is not run again.
// Statuses: 400 a leg that can not be read, 422 refused, 503 not available, 500
// failed.
func Handler(ex Executor) http.Handler {
	h := &handler{executor: ex, calls: map[string]*call{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+LegsPath, h.post)
	if p, ok := ex.(Prober); ok {
		mux.HandleFunc("POST "+StatePath, func(w http.ResponseWriter, r *http.Request) { tellState(w, r, p) })
	}
	return mux
}

func tellState(w http.ResponseWriter, r *http.Request, p Prober) {
	leg, ok := readLeg(w, r)
	if !ok {
		return
	}
	s, err := p.State(r.Context(), leg)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(stateJSON{number(s.GPUQueue), number(s.Flows)}) // the client has gone if this fails
}

func readLeg(w http.ResponseWriter, r *http.Request) (leg Leg, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return leg, false
	}
	if err := json.Unmarshal(body, &leg); err != nil || leg.ID == "" {
		http.Error(w, "a leg with an id was expected: "+errText(err), http.StatusBadRequest)
		return leg, false
	}
	return leg, true
}

type handler struct {
	executor Executor
	mu       sync.Mutex
	calls    map[string]*call
	finished []string // ids, oldest first
}

type call struct {
	done   chan struct{}
	result Result
	err    error
}

func (h *handler) post(w http.ResponseWriter, r *http.Request) {
	leg, ok := readLeg(w, r)
	if !ok {
		return
	}
	c, first := h.begin(leg.ID)
	if first {
		c.result, c.err = runWhole(r.Context(), h.executor, leg)
		h.end(leg.ID, c)
	}
	select {
	case <-c.done:
		answer(w, c)
	case <-r.Context().Done():
	}
}

func (h *handler) begin(id string) (c *call, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.calls[id]; c != nil {
		return c, false
	}
	c = &call{done: make(chan struct{})}
	h.calls[id] = c
	return c, true
}

// end keeps a result; what did not run may be tried again.
func (h *handler) end(id string, c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(c.done)
	if c.err != nil {
		delete(h.calls, id)
		return
	}
	h.finished = append(h.finished, id)
	if len(h.finished) > remembered {
		delete(h.calls, h.finished[0])
		h.finished = h.finished[1:]
	}
}

func runWhole(ctx context.Context, ex Executor, leg Leg) (Result, error) {
	// Cleaning up must not be cut short by a client that has gone.
	defer func() { _ = ex.Cleanup(context.WithoutCancel(ctx), leg) }()
	prepared, err := ex.Prepare(ctx, leg)
	if err != nil {
		return Result{}, err
	}
	r, err := ex.Run(ctx, leg)
	if err != nil {
		return Result{}, err
	}
	r.Cost.GPUSeconds += prepared.GPUSeconds
	r.Cost.Bytes += prepared.Bytes
	return r, r.Check()
}

func answer(w http.ResponseWriter, c *call) {
	if c.err != nil {
		http.Error(w, c.err.Error(), statusOf(c.err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.result) // the client has gone if this fails
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	case errors.Is(err, ErrRefused):
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

func errText(err error) string {
	if err == nil {
		return "it has none"
	}
	return err.Error()
}
