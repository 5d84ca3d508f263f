package report

import "time"

// Calibration is the cost model in force and what became of the last attempt
// to replace it.
type Calibration struct {
	Revision   int64     `json:"revision"`   // in force; 0 where there is none
	Previous   int64     `json:"previous"`   // that it replaced
	Outcome    string    `json:"outcome"`    // of the last run: "published", "refused", or "" where none ran
	Reasons    []string  `json:"reasons"`    // why it was published or refused
	Requests   int64     `json:"requests"`   // that the fit saw
	FitFrom    time.Time `json:"fit_from"`   // start of the window of the fit
	FitUntil   time.Time `json:"fit_until"`  // end of it
	Terms      []Term    `json:"terms"`      // what was fitted
	Challenges []Contest `json:"challenges"` // challenger against champion, by slice
	Note       string    `json:"note"`       // why there are no terms, where there are none
}

// Term is one fitted law: the prefill of a model on a GPU, the transfer of a
// tier over a link, the restore of a model from a tier, or the GPU queue.
type Term struct {
	Law           string    `json:"law"` // "prefill", "transfer", "restore", "queue"
	Of            string    `json:"of"`  // what it is of, for people
	Form          string    `json:"form"`
	N             int64     `json:"n"` // points
	Values        []Value   `json:"values"`
	Error         Number    `json:"held_out_error"`     // mean relative error of held-out points
	ErrorOf       string    `json:"error_of"`           // what Error and Floor are relative to, where that is not each point: "of the mean wait"
	Floor         Number    `json:"repeat_noise"`       // relative; what no form could beat
	Residuals     [5]Number `json:"residual_quantiles"` // 5, 25, 50, 75, 95 %, observed - predicted, seconds
	MaxTokens     Number    `json:"max_tokens"`         // validity box
	MaxBytes      Number    `json:"max_bytes"`
	MaxConcurrent Number    `json:"max_concurrent"`
}

// Value is one coefficient.
type Value struct {
	Name          string `json:"name"`
	Unit          string `json:"unit"`
	Value         Number `json:"value"`
	StandardError Number `json:"standard_error"` // in Unit; missing where the form does not fit it
}

// Contest is challenger against champion on one slice, by held-out mean
// relative error.
type Contest struct {
	Slice      string `json:"slice"`
	N          int64  `json:"n"`
	Champion   Number `json:"champion_error"`
	Challenger Number `json:"challenger_error"`
	Passed     bool   `json:"passed"`
	Outcome    string `json:"outcome"` // the gate's word: "better", "same", "worse", "too few", "no law", "within", "beyond", "minor"; "" where it is not said
}

// Coverage is how much of the traffic the answers rest on.
type Coverage struct {
	Requests     int64     `json:"requests"`
	WithDecision int64     `json:"with_decision"` // carry a decision part: path, candidates
	Predicted    int64     `json:"predicted"`     // with a predicted alternative
	Sampled      int64     `json:"sampled"`       // drawn for replay
	Legs         []Legs    `json:"legs"`          // by size bucket
	Support      []Support `json:"support"`       // by estimate

	Refusals    []Count `json:"refusals"`     // replays and estimates that were refused, by reason
	DeadLetters []Count `json:"dead_letters"` // records that could not be read, by reason
	Dead        Number  `json:"dead"`         // how many there were; missing where nobody counted
	Waiting     int64   `json:"waiting"`      // parts whose request has not come yet
	Orphans     int64   `json:"orphans"`      // parts that no request came for in a day
	Conflicts   int64   `json:"conflicts"`    // requests of which a span came with two contents
	Accepted    Number  `json:"accepted"`     // requests acknowledged to the senders, where that is known
	Lost        Number  `json:"lost"`         // acknowledged and not stored; likewise
	Doubled     Number  `json:"doubled"`      // stored twice; likewise
}

// Legs is replay legs of one kind in one size bucket.
type Legs struct {
	Size     string `json:"size"`     // tokens of the prefix
	Leg      string `json:"leg"`      // "rejected" (the path not taken) or "control" (the path taken)
	Intended Number `json:"intended"` // missing where no plan says it
	Executed int64  `json:"executed"`
}

// Support is how well an estimate is carried by its sample.
type Support struct {
	Of            string `json:"of"` // scope, for people
	Replays       int64  `json:"replays"`
	ESS           Number `json:"ess"`            // effective sample size
	LargestWeight Number `json:"largest_weight"` // share of the total weight, 0 to 1
	ParetoK       Number `json:"pareto_k"`       // of the weights' tail; 0.7 or more is not to be trusted
}

// Count is a reason and how often it came.
type Count struct {
	Reason string `json:"reason"`
	N      int64  `json:"n"`
}

// Measured is how the numbers came about.
type Measured struct {
	Version   string    `json:"version"` // of kvwhatif
	Command   string    `json:"command"` // that made the report
	Machine   string    `json:"machine"` // CPU, cores, memory
	From      time.Time `json:"from"`    // first request of the window
	Until     time.Time `json:"until"`   // end of the window
	Generated time.Time `json:"generated"`
	Wall      float64   `json:"wall_seconds"` // that the run took; 0 where it is not known
	Notes     []string  `json:"notes"`        // what a reader should know besides
}
