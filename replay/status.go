package replay

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/sample"
)

// Stats is what a runner has done since it started; Completion, Production and Legs
// go on over restarts on one store.
type Stats struct {
	Plan       string           // in force now
	Killed     string           // why nothing runs; "" while it does
	Decisions  int64            // parts with a decision
	Ineligible map[string]int64 // of them, by why they can not be replayed
	Drawn      int64            // legs
	Again      int64            // legs that came again and were known
	Dropped    map[string]int64 // legs that did not run, by why
	Waiting    int              // legs that wait for budget
	OldestWait int64            // instant of the oldest decision that waits, Unix nanoseconds; 0 for none: estimate up to it
	UnderWay   int              // legs that the executor runs
	Gated      int              // legs that wait for an idle engine
	Executed   int64            // legs with a result
	Emitted    int64            // results accepted by the pipeline
	Stocked    int64            // prefixes built into replay namespaces before legs ran
	Completion []budget.Tally   // by stratum, leg and path
	BySize     []budget.Tally   // by size bucket and leg
	Production budget.Charge    // cost seen
	Legs       budget.Charge    // cost charged
	Breaker    Breaker
}

// Breaker is how the circuit breaker stands.
type Breaker struct {
	On     bool // there is one
	Phase  budget.Phase
	Since  int64 // Unix nanoseconds; 0: the start
	Opened int64 // how often
	Judges bool  // there was enough to judge by at the last look
	budget.Reading
}

// Stats gives a copy of the counts.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	if p := r.plans.At(r.cfg.Now().UnixNano()); p != nil {
		s.Plan = p.ID()
	}
	s.Killed = r.killedNow()
	s.Ineligible, s.Dropped = maps.Clone(s.Ineligible), maps.Clone(s.Dropped)
	s.Waiting, s.UnderWay, s.Gated = len(r.queue), len(r.way), r.gated
	for i := range r.queue {
		if at := r.queue[i].DecidedNanos; s.OldestWait == 0 || at < s.OldestWait {
			s.OldestWait = at
		}
	}
	s.Completion, s.BySize = r.count.Tallies(), r.count.BySize()
	s.Production, s.Legs = r.ledger.Totals()
	phase, since := r.breaker.Phase()
	reading := r.breaker.Reading()
	s.Breaker = Breaker{
		On: r.cfg.Breaker.Factor > 0, Phase: phase, Since: since, Opened: r.breaker.Opened(),
		Judges: reading.Known(r.cfg.Breaker), Reading: reading,
	}
	return s
}

// Plans is the history of sampling plans, the oldest first, without the salt.
func (r *Runner) Plans() []sample.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plans.Entries()
}

// Paths of the runner's HTTP interface.
const (
	Path       = "/v1/replay/" // below which all lie
	KillPath   = Path + "kill"
	StatusPath = Path + "status"
	PlansPath  = Path + "plans"
)

// Handler serves the kill switch at KillPath (GET tells, PUT stops, ?why=...,
// DELETE resumes; each answers {"killed": why}, and "error" where the switch will
// not stay so), the Status at StatusPath, and the history of plans at PlansPath.
func (r *Runner) Handler() http.Handler {
	mux := http.NewServeMux()
	killed := func(w http.ResponseWriter, err error) {
		out := map[string]string{"killed": r.Killed()}
		status := http.StatusOK
		if err != nil {
			out["error"], status = err.Error(), http.StatusInternalServerError
		}
		say(w, status, out)
	}
	mux.HandleFunc("GET "+KillPath, func(w http.ResponseWriter, _ *http.Request) { killed(w, nil) })
	mux.HandleFunc("PUT "+KillPath, func(w http.ResponseWriter, q *http.Request) { killed(w, r.Kill(q.URL.Query().Get("why"))) })
	mux.HandleFunc("DELETE "+KillPath, func(w http.ResponseWriter, _ *http.Request) { killed(w, r.Resume()) })
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, r.Status()) })
	mux.HandleFunc("GET "+PlansPath, func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, r.Plans()) })
	return mux
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone if this fails
}

// Status is how a replayer stands, for people and machines. Numbers that are not
// known are null.
type Status struct {
	Running    bool                `json:"running"` // a replayer answered
	Killed     string              `json:"killed"`  // why nothing runs; "" while it does
	Plan       string              `json:"plan"`
	Plans      int                 `json:"plans"` // in the history
	Breaker    *BreakerStatus      `json:"breaker,omitempty"`
	Decisions  int64               `json:"decisions"`
	Ineligible map[string]int64    `json:"ineligible,omitempty"`
	Drawn      int64               `json:"drawn"`
	Waiting    int                 `json:"waiting"`
	OldestWait *time.Time          `json:"oldest_wait,omitempty"` // decision of the leg that waits longest
	Gated      int                 `json:"gated"`
	UnderWay   int                 `json:"under_way"`
	Executed   int64               `json:"executed"`
	Emitted    int64               `json:"emitted"`
	Dropped    map[string]int64    `json:"dropped,omitempty"`
	GPUSeconds Spending            `json:"gpu_seconds"`
	Bytes      Spending            `json:"bytes"`
	BySize     []Completeness      `json:"completeness"` // by size bucket and leg
	Namespaces []execute.Namespace `json:"namespaces,omitempty"`
}

// BreakerStatus is the circuit breaker in a Status. Seconds.
type BreakerStatus struct {
	Phase    string     `json:"phase"` // "off", "closed", "open" or "trial"
	Since    *time.Time `json:"since,omitempty"`
	Opened   int64      `json:"opened"`
	Judges   bool       `json:"judges"` // false: too few requests beside legs, or away from them
	Beside   int        `json:"requests_beside"`
	P99      *float64   `json:"p99_seconds"`
	Baseline *float64   `json:"baseline_seconds"`
}

// Spending is a cost of production and of legs.
type Spending struct {
	Production float64 `json:"production"`
	Legs       float64 `json:"legs"`
	Share      float64 `json:"share"` // of production's; 0 of nothing
}

// Completeness is what was meant to run against what did.
type Completeness struct {
	Size     string  `json:"size"` // tokens of the prefix
	Leg      string  `json:"leg"`
	Intended int     `json:"intended"`
	Executed int     `json:"executed"`
	Share    float64 `json:"share"`
	Enough   bool    `json:"enough"` // at least Floor: below it an estimate is refused
}

// Floor is the completion below which estimates are refused (estimate.Options.MinCompletion).
const Floor = 0.5

// Status gives how the runner stands.
func (r *Runner) Status() Status {
	s, plans := r.Stats(), len(r.Plans())
	out := Status{
		Running: true, Killed: s.Killed, Plan: s.Plan, Plans: plans, Breaker: s.Breaker.status(),
		Decisions: s.Decisions, Ineligible: s.Ineligible, Drawn: s.Drawn, Waiting: s.Waiting, OldestWait: instant(s.OldestWait),
		Gated: s.Gated, UnderWay: s.UnderWay, Executed: s.Executed, Emitted: s.Emitted, Dropped: s.Dropped,
		GPUSeconds: spending(s.Production.GPUSeconds, s.Legs.GPUSeconds), Bytes: spending(s.Production.Bytes, s.Legs.Bytes),
		BySize: completeness(s.BySize),
	}
	if k, ok := r.executor().(execute.Keeper); ok {
		out.Namespaces = k.Namespaces()
	}
	return out
}

func (b Breaker) status() *BreakerStatus {
	if !b.On {
		return &BreakerStatus{Phase: "off"}
	}
	return &BreakerStatus{
		Phase: b.Phase.String(), Since: instant(b.Since), Opened: b.Opened, Judges: b.Judges, Beside: b.Beside,
		P99: finite(b.P99), Baseline: finite(b.Baseline),
	}
}

func spending(production, legs float64) Spending {
	return Spending{Production: production, Legs: legs, Share: share(legs, production)}
}

func instant(nanos int64) *time.Time {
	if nanos == 0 {
		return nil
	}
	t := time.Unix(0, nanos).UTC()
	return &t
}

func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
