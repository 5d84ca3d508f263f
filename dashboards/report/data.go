// Package report draws what was measured as one HTML file, as text for a
// terminal and as JSON. It is given a Data and does no I/O but writing: the
// queries that fill a Data are in dashboards/query.
//
// Two rules hold everywhere. A value that is not known is missing (a nil
// *Interval, a Number that is not OK) and is shown as "unknown" with its reason,
// never as zero and never as good. Every benefit has one sign: positive seconds
// mean that the choice made the request faster than its alternative would have.
package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Data is everything that a report shows. Every slice may be empty: its section
// then says why there is no number. All durations are seconds.
type Data struct {
	Title     string `json:"title"`     // of the run, for people; may be empty
	Simulated bool   `json:"simulated"` // true where the traffic came from the fleet simulator

	Verdicts    []Verdict   `json:"verdicts"`
	Benefits    []Benefit   `json:"benefits"`
	Stages      []Stages    `json:"stages"`
	Truths      []Truth     `json:"truths"` // only where a truth file was given
	Calibration Calibration `json:"calibration"`
	Arms        []Arm       `json:"arms"`
	Worst       []Decision  `json:"worst"`
	Coverage    Coverage    `json:"coverage"`
	Measured    Measured    `json:"measured"`
}

// Interval is an estimate of seconds with its uncertainty. Positive seconds mean
// faster. Level is the coverage of [Low, High], 0.9 or 0.95; a Level of 0 says
// that Value is a model's prediction without an interval, and Low and High are
// not read. A nil *Interval is "unknown".
type Interval struct {
	Value float64 `json:"value_seconds"`
	Low   float64 `json:"low_seconds"`
	High  float64 `json:"high_seconds"`
	Level float64 `json:"level"`
	N     int64   `json:"n"` // what it is estimated from: replays, requests or pairs, as the field says; 0: not said
}

// Known says that there is a finite estimate; an interval with an infinite or
// reversed bound is not one.
func (i *Interval) Known() bool {
	if i == nil || !finite(i.Value) {
		return false
	}
	return i.Level == 0 || (finite(i.Low) && finite(i.High) && i.Low <= i.High)
}

// HasInterval says that it is known with its bounds.
func (i *Interval) HasInterval() bool { return i.Known() && i.Level > 0 }

// MarshalJSON gives null for what is not known: JSON has no NaN.
func (i *Interval) MarshalJSON() ([]byte, error) {
	if !i.Known() {
		return []byte("null"), nil
	}
	type plain Interval // without this method
	if i.Level != 0 {
		return json.Marshal(plain(*i))
	}
	return json.Marshal(struct {
		plain
		Low  *float64 `json:"low_seconds"` // null: there is no interval
		High *float64 `json:"high_seconds"`
	}{plain: plain(*i)})
}

// Number is a value that may be missing; its zero value is missing. It is an
// Opt, so Number(request.TTFT) converts one.
type Number schema.Opt[float64]

// Num is a value that is there.
func Num(v float64) Number { return Number{V: v, OK: true} }

// Known says that there is a finite value.
func (n Number) Known() bool { return n.OK && finite(n.V) }

// MarshalJSON gives the value, or null where it is missing or not finite.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(n.V)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number{}
		return nil
	}
	n.OK = true
	return json.Unmarshal(b, &n.V)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// State is what a verdict says. Anything that is not one of the first three is
// unknown.
type State string

// The states of a verdict.
const (
	Helping State = "helping"
	Hurting State = "hurting"
	Even    State = "even" // the whole interval lies within the margin that does not matter
	Unknown State = "unknown"
)

// Verdict is the answer for one scope: did the chosen path help the requests
// that took it, against the alternative? Say() puts it in words.
type Verdict struct {
	Link        string `json:"link"`        // "" means all links
	Path        string `json:"path"`        // chosen: "fetch", "recompute", "route", "resident"
	Alternative string `json:"alternative"` // the path it is compared with
	Policy      string `json:"policy"`      // "" means all policies
	Model       string `json:"model"`       // "" means all models
	Tier        string `json:"tier"`        // "" means all tiers
	Size        string `json:"size"`        // size bucket of the prefix, tokens; "" means all
	State       State  `json:"state"`

	Own    *Interval `json:"own"`    // on the requests themselves, measured by replay; n is replays
	Others *Interval `json:"others"` // on other requests, by the model: avoided (+) or imposed (-) delay
	Net    *Interval `json:"net"`    // Own + Others

	Requests int64  `json:"requests"` // requests that took Path in this scope
	Replays  int64  `json:"replays"`  // replays that Own rests on
	Reason   string `json:"reason"`   // why it is unknown
	Action   string `json:"action"`   // what to do; a default is written where it is ""

	At   time.Time `json:"at,omitzero"`   // when it was estimated; zero: with the report
	From time.Time `json:"from,omitzero"` // of the decisions that it is of, where that is not the report's window
	To   time.Time `json:"until,omitzero"`
}

// Benefit is one row of "where it helps": a slice of the requests by one
// dimension. Rows by path are of the path named; all others are of fetched
// requests against recomputing, so that they have one meaning.
type Benefit struct {
	By       string `json:"by"` // "path", "tier", "link", "size", "policy"
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Hurt     int64  `json:"hurt"`    // requests predicted to have been slower than their alternative
	Unknown  int64  `json:"unknown"` // requests whose alternative nobody predicted

	Predicted *Interval `json:"predicted"` // mean benefit by the logged predictions; n is requests
	Measured  *Interval `json:"measured"`  // mean benefit by replay; n is replays
	Reason    string    `json:"reason"`    // why Measured is unknown

	// Unmeasured is the share of the requests, 0 to 1, in strata where too few
	// replays came back for an estimate.
	Unmeasured Number `json:"unmeasured_share"`
}

// Stages is where the mean TTFT of a group of requests went, seconds a request.
// GPUQueue + ExposedStall + Restore + Prefill + Remainder = TTFT; the report
// prints whether that holds. Remainder may be negative.
type Stages struct {
	Path     string `json:"path"`
	Link     string `json:"link"`     // "" where no link was used
	Requests int64  `json:"requests"` // with a TTFT and stages

	GPUQueue     float64 `json:"gpu_queue_seconds"`
	ExposedStall float64 `json:"exposed_stall_seconds"`
	Restore      float64 `json:"restore_seconds"`
	Prefill      float64 `json:"prefill_seconds"`
	Remainder    float64 `json:"remainder_seconds"`
	TTFT         float64 `json:"ttft_seconds"`
}

// Truth holds estimates against the simulator's truth for one ordered pair on
// one link.
type Truth struct {
	Path        string   `json:"path"`        // chosen
	Alternative string   `json:"alternative"` // compared with
	Link        string   `json:"link"`
	Truth       Number   `json:"truth_seconds"` // θ, positive where the choice helped
	Requests    int64    `json:"requests"`      // that the truth is the mean of
	Others      bool     `json:"others"`        // of the delay of all other requests, per request that chose Path
	Methods     []Method `json:"methods"`       // the first is the one that verdicts use
}

// Method is one estimator's answer.
type Method struct {
	Name     string    `json:"name"`     // "AIPW", "SNIPW", "IPW", "naive"
	Estimate *Interval `json:"estimate"` // n is replays
	Reason   string    `json:"reason"`   // why it is unknown
}

// Arm is one policy on the same traffic.
type Arm struct {
	Policy   string    `json:"policy"`
	Note     string    `json:"note"`    // what it does, a phrase
	Link     string    `json:"link"`    // whose traffic; "" where there is one comparison only
	Default  bool      `json:"default"` // the arm that the others are compared with
	AA       bool      `json:"aa"`      // the default's policy with another seed: its Gain must cover 0
	Runs     int64     `json:"runs"`    // whole runs on noise of their own; 0 where it is not said
	Requests int64     `json:"requests"`
	Mean     Number    `json:"mean_seconds"` // TTFT
	P50      Number    `json:"p50_seconds"`
	P95      Number    `json:"p95_seconds"`
	P99      Number    `json:"p99_seconds"`
	Gain     *Interval `json:"gain"`   // mean of default - this arm, paired by request; n is pairs
	Reason   string    `json:"reason"` // why Gain is unknown
}

// Decision is one of the worst decisions. Its regret is a prediction, shrunk
// towards its group's mean, for a single request has a single draw.
type Decision struct {
	ID          string    `json:"id"` // of its row, hex; "" where it is not known
	Trace       string    `json:"trace"`
	At          time.Time `json:"at"`
	Path        string    `json:"path"`
	Alternative string    `json:"alternative"`
	Link        string    `json:"link"`
	Model       string    `json:"model"`
	Policy      string    `json:"policy"`

	Observed  Number `json:"observed_ttft_seconds"`
	Predicted Number `json:"predicted_alternative_ttft_seconds"`
	Regret    Number `json:"regret_seconds"` // shrunk; positive: the alternative would have been better

	Taken    Timeline `json:"taken"`     // observed
	NotTaken Timeline `json:"not_taken"` // predicted
}

// Timeline is the stages of one request, seconds; a missing stage is not drawn.
type Timeline struct {
	GPUQueue     Number `json:"gpu_queue_seconds"`
	ExposedStall Number `json:"exposed_stall_seconds"`
	Restore      Number `json:"restore_seconds"`
	Prefill      Number `json:"prefill_seconds"`
	TTFT         Number `json:"ttft_seconds"`
}
