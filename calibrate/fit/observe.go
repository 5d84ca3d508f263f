package fit

// PrefillObs is one prefill.
type PrefillObs struct {
	Model, GPU string
	Computed   float64 // n, tokens
	Before     float64 // m, tokens there already
	Seconds    float64
	At         int64 // Unix nanoseconds
}

// TransferObs is one movement over a link. Start and End are seconds after any
// one instant, the same for all: the first byte and the last.
type TransferObs struct {
	Tier, Link, Pair string
	Start, End       float64
	Queue            float64 // decision to first byte: t0 + cold + Qn, seconds; NaN where it is not known
	Bytes            float64
}

// RestoreObs is one restoration.
type RestoreObs struct {
	Model, Tier string
	Bytes       float64
	Seconds     float64
	At          int64 // Unix nanoseconds
}

// QueueObs is a GPU queue as the worker reported it and as it came.
type QueueObs struct {
	Reported, Observed float64 // seconds
	At                 int64   // Unix nanoseconds
}

// StallObs is what a fetch did to a GPU slot.
type StallObs struct {
	GPUQueue float64 // Qg, seconds
	Fetched  float64 // X: decision to last byte, seconds
	Stall    float64 // exposed stall, seconds
}

// Observations is everything that a fit sees.
type Observations struct {
	FromNanos, UntilNanos int64 // window, Unix nanoseconds
	Requests              int64 // in it

	Prefill  []PrefillObs
	Transfer []TransferObs
	Restore  []RestoreObs
	Queue    []QueueObs
	Stall    []StallObs
}

// Skipped is a law that was not fitted, and why.
type Skipped struct {
	Term   string // "prefill", "transfer", "restore", "queue", "omega"
	Key    string // of the law, for people
	N      int
	Reason string
}
