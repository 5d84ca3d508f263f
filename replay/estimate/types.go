package estimate

import "github.com/kvwhatif/kvwhatif/schema"

// NumPaths is the length of arrays by schema.Path.
const NumPaths = int(schema.PathResident) + 1

// Slice is what benefits are broken down by, beside the path.
type Slice struct {
	Policy string
	Model  string
	Tier   string
	Link   string
	Size   int // schema.SizeBucket of the prefix; −1 where not known
}

// Decision is one production request. Durations are seconds; NaN is "not known".
type Decision struct {
	ID          schema.RowID
	Block       int64       // index of its block of time
	Path        schema.Path // chosen
	Alternative schema.Path // that its benefit is weighed against; PathNone where it had none
	Slice       Slice
	Load        int    // load bucket at the decision; −1 where not known
	Stratum     string // of the sampling plan

	Y     float64           // observed TTFT of the choice
	Model [NumPaths]float64 // m_b as predicted at the decision, by path; NaN where there was no such candidate

	// Intended says which legs were drawn, by the path that they run: 1 or 0
	// where the draw is known, its probability where only the plan's parameters
	// are. The entry of the chosen path is the control leg's.
	Intended [NumPaths]float64
}

// Leg is one replay that gave a result. Durations are seconds.
type Leg struct {
	Of            schema.RowID
	Path          schema.Path // that it ran
	Kind          schema.Leg
	Y             float64 // TTFT as replayed
	ModelDecision float64 // m_b at the decision's state
	ModelReplay   float64 // m_b at the replay's state
	Inclusion     float64 // the probability with which it was drawn, (0, 1]
	Batch         string  // legs of a batch share noise
}

// Input is a window.
type Input struct {
	Decisions []Decision
	Legs      []Leg
}

// Options are the limits below which an estimate is refused. The zero value of
// each field means its default.
type Options struct {
	Level         float64 // of the intervals; 0.95
	MinLegs       int     // rejected legs of a pair; 20
	MinControls   int     // control legs of requests that chose b; 10
	MinESS        float64 // effective sample size of the legs; 10
	MinCompletion float64 // q̂ of a stratum; 0.5
	MinSupport    float64 // share of the requests in cells that have control legs; 0.8
	MaxUnknown    float64 // share of a pair's requests, or of their time, that may be left out; 0.2
	MinBlocks     int     // blocks of time for an interval of the next hour; 5
	MaxTail       float64 // Pareto k of the weights; 0.7, beyond which a weighted mean is not reliable
	MaxInfluence  float64 // share of one leg in all that the legs correct; 0.5
	DeltaP        float64 // significance at which δ_b is said to differ between cells; 0.01
	DeltaShare    float64 // and the spread of it that matters, as a share of the mean TTFT; 0.02
	BurnIn        int     // decisions before the confidence sequence speaks; 100

	// Clip, in seconds, is the largest TTFT that counts in Pair.Exact, to be chosen
	// before any data; 0: it is not given. MinRate is the least probability that the
	// plan gives a leg; 0.002.
	Clip    float64
	MinRate float64

	NoRecalibration bool // use the logged m_b as it is
}

func (o Options) withDefaults() Options {
	setFloat(&o.Level, 0.95)
	setFloat(&o.MinESS, 10)
	setFloat(&o.MinCompletion, 0.5)
	setFloat(&o.MinSupport, 0.8)
	setFloat(&o.MaxUnknown, 0.2)
	setFloat(&o.MaxTail, 0.7)
	setFloat(&o.MaxInfluence, 0.5)
	setFloat(&o.DeltaP, 0.01)
	setFloat(&o.DeltaShare, 0.02)
	setFloat(&o.MinRate, 0.002)
	setInt(&o.MinLegs, 20)
	setInt(&o.MinControls, 10)
	setInt(&o.MinBlocks, 5)
	setInt(&o.BurnIn, 100)
	return o
}

func setFloat(v *float64, d float64) {
	if *v == 0 {
		*v = d
	}
}

func setInt(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

// Interval is an interval with its standard error, in the estimate's unit. All
// are NaN where it could not be had.
type Interval struct {
	Lo, Hi float64
	SE     float64
}

// Pair is θ(From→To) of a set of requests, with everything that says how far to
// trust it. Durations are seconds.
type Pair struct {
	From, To schema.Path
	Known    bool
	Why      string // why not, where Known is false

	N          int // requests that the estimate is of
	Unknown    int // requests of the pair that it leaves out: no TTFT, or q̂ too low
	Infeasible int // requests that chose From and had no candidate To
	Legs       int // rejected legs used
	Controls   int // control legs used for δ
	Batches    int
	Blocks     int

	Theta    float64  // AIPW, the estimate
	Window   Interval // finite population: of these very requests
	NextHour Interval // blocks of time: of requests to come; NaN with fewer than MinBlocks blocks
	Always   Interval // asymptotic confidence sequence: holds however often it is looked at, from BurnIn requests and MinLegs legs on

	// Exact is an empirical-Bernstein confidence sequence of clipped TTFT, which holds
	// from the first request on without any limit theorem, the correction's doubt
	// (Student's) with it. Its range is (1 + 1/(MinRate·MinCompletion)) times Clip
	// each way, so that below some 100,000 requests it says next to nothing where legs
	// are rare. NaN without Options.Clip.
	Exact Interval

	Direct float64 // mean of m_b − y, recalibrated on earlier legs: right only where the model is
	Naive  float64 // mean of replay − original: not weighted, not carried, not corrected
	IPW    float64 // weighted, carried, corrected, without m_b
	SNIPW  float64 // the same, self-normalised

	Delta      float64 // δ_To, seconds
	DeltaSE    float64
	DeltaP     float64 // p-value of "δ is the same in each cell"; NaN with one cell
	Completion float64 // executed/intended over the pair
	ESS        float64 // (Σw)²/Σw² of the legs
	MaxWeight  float64 // largest w as a share of Σw
	ParetoK    float64 // tail index of the weights; NaN where they have no tail or are too few
	TailK      float64 // tail index of the legs' weighted residuals: above 0.5 one more leg may move the estimate much
	Influence  float64 // the largest of those as a share of their sum
	MeanChosen float64 // mean TTFT of the choice
}

// UnknownShare is the share of the requests that chose From of which the
// estimate says nothing: 1 where it is refused.
func (p Pair) UnknownShare() float64 {
	all := p.N + p.Unknown + p.Infeasible
	if !p.Known || all == 0 {
		return 1
	}
	return float64(p.Unknown+p.Infeasible) / float64(all)
}
