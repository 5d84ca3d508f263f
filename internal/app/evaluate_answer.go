package app

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
)

// Methods of valuing a policy that is not deployed.
const (
	MethodReplays     = "replays"     // legs: one request at a time, queues and caches as they were
	MethodExploration = "exploration" // logged propensities: likewise
	MethodSimulation  = "simulation"  // whole runs of a simulated fleet: queues and caches follow
)

// States of an evaluation.
const (
	StateFaster  = "faster"
	StateSlower  = "slower"
	StateEven    = "even" // within 1 % of the logged mean either way
	StateUnknown = "unknown"
)

// EvaluatedStates are the words of an evaluation.
func EvaluatedStates() []string { return []string{StateFaster, StateSlower, StateEven, StateUnknown} }

// evenMargin is the share of the logged mean that does not matter.
const evenMargin = 0.01

// Bounded is a number with its interval, seconds; null where it is not known.
type Bounded struct {
	Value report.Number `json:"value_seconds"`
	Low   report.Number `json:"low_seconds"`
	High  report.Number `json:"high_seconds"`
}

func bounded(v, lo, hi float64) Bounded {
	return Bounded{report.Num(v), report.Num(lo), report.Num(hi)}
}

func boundedBy(e evaluate.Estimate) Bounded { return bounded(e.Value, e.Lo, e.Hi) }

// EvaluatedBy is a policy's mean TTFT by one method.
type EvaluatedBy struct {
	Method  string  `json:"method"`
	Known   bool    `json:"known"`
	Why     string  `json:"why,omitempty"` // why not
	Logged  Bounded `json:"logged"`        // mean TTFT as the requests were decided
	Value   Bounded `json:"policy"`        // under the policy
	Change  Bounded `json:"change"`        // policy less logged: negative is faster; of these requests
	Next    Bounded `json:"change_next"`   // the same for requests to come, over blocks of time
	Level   float64 `json:"level"`         // of the intervals
	State   string  `json:"state"`
	N       int     `json:"requests"`
	Unknown int     `json:"unknown"` // left out
	Moved   int     `json:"moved"`   // of the N, those that the policy runs another way

	Replays     int           `json:"replays,omitempty"`
	Matches     int           `json:"matches,omitempty"` // logged choices that are the policy's
	Runs        int           `json:"runs,omitempty"`
	Blocks      int           `json:"blocks,omitempty"` // of time
	ESS         report.Number `json:"ess"`
	MaxWeight   report.Number `json:"max_weight"`
	ParetoK     report.Number `json:"pareto_k"`
	IPW         *Bounded      `json:"ipw,omitempty"`
	SNIPW       *Bounded      `json:"snipw,omitempty"`
	Direct      report.Number `json:"direct"` // by predictions alone
	LinkLogged  report.Number `json:"link_load_logged"`
	LinkPolicy  report.Number `json:"link_load_policy"`
	GPULogged   report.Number `json:"gpu_load_logged"`
	GPUPolicy   report.Number `json:"gpu_load_policy"`
	Assumptions []string      `json:"assumptions,omitempty"`
}

// EvaluatedSlice is a policy's value in one slice; the intervals of all slices hold
// together.
type EvaluatedSlice struct {
	By    string `json:"by"`
	Value string `json:"slice"`
	EvaluatedBy
}

// EvaluatedLink is what the policy would do to the load of a link.
type EvaluatedLink struct {
	Link     string        `json:"link"`
	Logged   float64       `json:"logged_bytes_per_second"`
	Policy   float64       `json:"policy_bytes_per_second"`
	Capacity report.Number `json:"capacity_bytes_per_second"`
	Change   float64       `json:"change_of_load"`
}

// EvaluatedFeedback says whether others would wait otherwise than they did.
type EvaluatedFeedback struct {
	Carries   bool            `json:"carries"`
	Why       string          `json:"why"`
	Limit     float64         `json:"limit"`
	Links     []EvaluatedLink `json:"links"`
	GPUChange float64         `json:"gpu_change_of_load"`
}

func feedbackOf(f evaluate.Feedback) EvaluatedFeedback {
	out := EvaluatedFeedback{Carries: f.Carries, Why: f.Why, Limit: f.Limit, GPUChange: f.GPUChange, Links: []EvaluatedLink{}}
	for _, l := range f.Links {
		e := EvaluatedLink{Link: l.Link, Logged: l.Logged, Policy: l.Policy, Change: l.Change}
		if l.Capacity > 0 {
			e.Capacity = report.Num(l.Capacity)
		}
		out.Links = append(out.Links, e)
	}
	return out
}

// Evaluation is what a policy that is not deployed would have done.
type Evaluation struct {
	Policy    string            `json:"policy"`
	Kind      string            `json:"kind"`
	Scope     string            `json:"scope"`
	From      time.Time         `json:"from"`
	Until     time.Time         `json:"until"`
	Generated time.Time         `json:"generated"`
	State     string            `json:"state"`
	By        string            `json:"by"`  // the method that answers; "" where none does
	Why       string            `json:"why"` // why that method, or why unknown
	Requests  int               `json:"requests"`
	Undecided int               `json:"undecided"` // requests of which what the policy needs was not logged
	Feedback  EvaluatedFeedback `json:"feedback"`
	Methods   []EvaluatedBy     `json:"methods"`
	Slices    []EvaluatedSlice  `json:"slices,omitempty"` // by replays
	Notes     []string          `json:"notes,omitempty"`
}

// method gives the answer of a method.
func (e *Evaluation) method(name string) *EvaluatedBy {
	i := slices.IndexFunc(e.Methods, func(m EvaluatedBy) bool { return m.Method == name })
	if i < 0 {
		return &EvaluatedBy{Method: name, State: StateUnknown, Why: "not asked"}
	}
	return &e.Methods[i]
}

// maxUndecided is the share of requests on which a policy may have nothing to say.
const maxUndecided = 0.05

// answer says which method answers. Where the policy changes what others wait for,
// only whole runs do.
func (e *Evaluation) answer() {
	e.State = StateUnknown
	order := []string{MethodReplays, MethodExploration, MethodSimulation}
	if e.Feedback.Carries {
		order = order[2:]
	}
	switch {
	case e.Requests == 0:
		e.Why = "no request with a decision in this window and scope: see that spans arrive, or widen the window"
		return
	case float64(e.Undecided) > maxUndecided*float64(e.Requests):
		e.Why = fmt.Sprintf("of %d of %d requests what the policy decides by was not logged", e.Undecided, e.Requests)
		return
	}
	for _, name := range order {
		if m := e.method(name); m.Known {
			e.By, e.State, e.Why = name, m.State, e.Feedback.Why
			return
		}
	}
	if e.Feedback.Carries {
		e.Why = e.Feedback.Why + ". Single requests do not answer that, and the simulator: " + e.method(MethodSimulation).Why + ". A switchback does (`kvwhatif evaluate switchback`)"
		return
	}
	e.Why = "replays: " + e.method(MethodReplays).Why + "; exploration: " + e.method(MethodExploration).Why
}

// Failing says that the state is one of these, and why; "" where it is not.
func (e *Evaluation) Failing(states []string) string {
	if slices.Contains(states, e.State) {
		return fmt.Sprintf("%s: policy %s: %s", e.State, e.Policy, e.Why)
	}
	return ""
}

func refusedBy(method, why string) EvaluatedBy {
	return EvaluatedBy{Method: method, Why: why, State: StateUnknown, Level: 0.95}
}

// stateOfChange is the word for an interval of the change.
func stateOfChange(lo, hi, logged float64) string {
	margin := evenMargin * logged
	switch {
	case math.IsNaN(lo) || math.IsNaN(hi):
		return StateUnknown
	case lo >= -margin && hi <= margin:
		return StateEven
	case hi < 0:
		return StateFaster
	case lo > 0:
		return StateSlower
	}
	return StateUnknown
}

func byReplays(v estimate.Value) EvaluatedBy {
	if !v.Known {
		m := refusedBy(MethodReplays, v.Why)
		m.N, m.Unknown, m.Moved, m.Replays = v.N, v.Unknown, v.Moved, v.Legs
		return m
	}
	return EvaluatedBy{
		Method: MethodReplays, Known: true, N: v.N, Unknown: v.Unknown, Moved: v.Moved, Replays: v.Legs, Blocks: v.Blocks, Level: 0.95,
		Logged: bounded(v.Logged, v.Logged, v.Logged), Value: bounded(v.Value, v.Window.Lo, v.Window.Hi),
		Change: bounded(v.Change, v.ChangeIn.Lo, v.ChangeIn.Hi), Next: bounded(v.Change, v.ChangeBy.Lo, v.ChangeBy.Hi),
		State: stateOfChange(v.ChangeIn.Lo, v.ChangeIn.Hi, v.Logged), ESS: report.Num(v.ESS), MaxWeight: report.Num(v.MaxWeight),
	}
}

func byExploration(w evaluate.Weighted) EvaluatedBy {
	m := EvaluatedBy{
		Method: MethodExploration, Known: w.Known, Why: w.Why, N: w.N, Matches: w.Matches, Moved: w.N - w.Matches, Blocks: w.Blocks, Level: 0.95, State: StateUnknown,
		ESS: report.Num(w.ESS), MaxWeight: report.Num(w.MaxWeight), ParetoK: report.Num(w.ParetoK), Direct: report.Num(w.Direct),
	}
	if w.Known {
		ipw, snipw := boundedBy(w.IPW), boundedBy(w.SNIPW)
		m.Logged, m.Value, m.Change, m.Next, m.IPW, m.SNIPW = boundedBy(w.Logged), boundedBy(w.DR), boundedBy(w.Change), boundedBy(w.Change), &ipw, &snipw
		m.State = stateOfChange(w.Change.Lo, w.Change.Hi, w.Logged.Value)
	}
	return m
}

func bySimulation(s evaluate.Simulated) EvaluatedBy {
	m := EvaluatedBy{Method: MethodSimulation, Known: s.Known, Why: s.Why, N: s.N, Runs: s.Runs, Level: 0.95, State: StateUnknown, Assumptions: s.Assumptions}
	if s.Known {
		m.Logged, m.Value, m.Change = boundedBy(s.Logged), boundedBy(s.Value), boundedBy(s.Change)
		m.State = stateOfChange(s.Change.Lo, s.Change.Hi, s.Logged.Value)
		m.LinkLogged, m.LinkPolicy, m.GPULogged, m.GPUPolicy = report.Num(s.LinkLogged), report.Num(s.LinkPolicy), report.Num(s.GPULogged), report.Num(s.GPUPolicy)
		m.Assumptions = append(m.Assumptions, fmt.Sprintf("under the logged choices it takes %.4g ms where %.4g were observed (%+.1f %%); it could not take %.1f %% of those choices", 1e3*s.Logged.Value, 1e3*s.Observed, 100*s.Error, 100*s.NotPossible))
	}
	return m
}
