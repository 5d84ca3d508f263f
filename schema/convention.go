package schema

// SpanName is the name of the one span that a coordinator writes for each
// request, kind INTERNAL, from the decision to the first token.
const SpanName = "kvreuse.request"

// ReplayRequestIDPrefix begins the engine request id of every replay leg, so
// that the engine spans of a leg never become requests.
const ReplayRequestIDPrefix = "kvwhatif-replay-"

// The topics of Kafka.
const (
	TopicParts = "kvreuse.parts" // batches of parts
	TopicDead  = "kvreuse.dead"  // dead letters
)

// Attribute names of the contract span. Seconds are doubles; bytes, tokens and
// counts are ints; names are strings.
const (
	AttrPolicy    = "kvreuse.policy"                // who decided
	AttrRevision  = "kvreuse.coefficients.revision" // with which coefficients; 0 where none
	AttrRequestID = "kvreuse.request.id"            // the engine's request id
	AttrTenant    = "kvreuse.tenant"                // hashed by the sender

	AttrPath   = "kvreuse.path"   // chosen path, see Path
	AttrChosen = "kvreuse.chosen" // index of the choice among the candidates

	AttrModel        = "kvreuse.model"
	AttrGPU          = "kvreuse.gpu"
	AttrWorker       = "kvreuse.worker"
	AttrSourceWorker = "kvreuse.source.worker"
	AttrSourceTier   = "kvreuse.source.tier" // see Tier
	AttrLink         = "kvreuse.link"        // bottleneck link of the choice

	AttrTokensPrompt = "kvreuse.tokens.prompt"
	AttrTokensPrefix = "kvreuse.tokens.prefix" // tokens that somebody holds: resident and fetchable
	AttrTokensReused = "kvreuse.tokens.reused" // tokens that were not computed
	AttrPrefixBlocks = "kvreuse.prefix.blocks" // opaque block hashes, int array; never stored in ClickHouse

	AttrBytes         = "kvreuse.bytes"          // moved for this request
	AttrGPUQueue      = "kvreuse.gpu_queue"      // wait for the GPU, seconds
	AttrTransferQueue = "kvreuse.transfer_queue" // decision to first byte: t0 + cold + Qn, seconds
	AttrTransfer      = "kvreuse.transfer"       // first byte to last, seconds
	AttrTransferStart = "kvreuse.transfer.start" // first byte, seconds after the span's start
	AttrExposedStall  = "kvreuse.exposed_stall"  // seconds that the GPU slot waited for the transfer
	AttrRestore       = "kvreuse.restore"        // seconds; 0 under layer streaming
	AttrPrefill       = "kvreuse.prefill"        // seconds
	AttrTTFT          = "kvreuse.ttft"           // seconds from the decision to the first token

	AttrLinkFlows    = "kvreuse.link.flows"    // transfers on the link at the decision
	AttrWorkerActive = "kvreuse.worker.active" // requests decoding on the worker at the decision
	AttrStateAge     = "kvreuse.state.age"     // how old the state was, seconds

	AttrCandidatePath           = "kvreuse.candidate.path"
	AttrCandidateWorker         = "kvreuse.candidate.worker"
	AttrCandidateSource         = "kvreuse.candidate.source"
	AttrCandidateTier           = "kvreuse.candidate.tier"
	AttrCandidateLinks          = "kvreuse.candidate.links"
	AttrCandidateTokensResident = "kvreuse.candidate.tokens_resident"
	AttrCandidateTokensFetched  = "kvreuse.candidate.tokens_fetched"
	AttrCandidateTokensComputed = "kvreuse.candidate.tokens_computed"
	AttrCandidateBytes          = "kvreuse.candidate.bytes"
	AttrCandidateGPUQueue       = "kvreuse.candidate.gpu_queue"
	AttrCandidateTransferQueue  = "kvreuse.candidate.transfer_queue"
	AttrCandidateBandwidth      = "kvreuse.candidate.bandwidth" // bytes/s
	AttrCandidateRestore        = "kvreuse.candidate.restore"
	AttrCandidateRecompute      = "kvreuse.candidate.recompute" // time to compute tokens_computed, seconds
	AttrCandidateTTFT           = "kvreuse.candidate.ttft"
	AttrCandidateExternality    = "kvreuse.candidate.externality" // delay imposed on others, seconds
	AttrCandidatePropensity     = "kvreuse.candidate.propensity"  // probability of choosing it, 0 to 1; 0: the policy never takes it

	AttrReplayOf        = "kvreuse.replay.of"        // trace id replayed, 32 hex digits
	AttrReplaySpan      = "kvreuse.replay.of.span"   // anchor span replayed, 16 hex digits: a trace can hold several
	AttrReplayPlan      = "kvreuse.replay.plan"      // plan id
	AttrReplayPath      = "kvreuse.replay.path"      // path that the leg ran
	AttrReplayCandidate = "kvreuse.replay.candidate" // index of the candidate that the leg ran
	AttrReplayInclusion = "kvreuse.replay.inclusion" // probability with which this leg was drawn
	AttrReplayLeg       = "kvreuse.replay.leg"       // LegRejected or LegControl
	AttrReplayBatch     = "kvreuse.replay.batch"     // legs run together share noise
	// Load at the decision and at the replay; the model carries a leg from the
	// second to the first.
	AttrReplayStateDecisionGPUQueue = "kvreuse.replay.state.decision.gpu_queue" // seconds
	AttrReplayStateDecisionFlows    = "kvreuse.replay.state.decision.flows"
	AttrReplayStateReplayGPUQueue   = "kvreuse.replay.state.replay.gpu_queue" // seconds
	AttrReplayStateReplayFlows      = "kvreuse.replay.state.replay.flows"
	AttrReplayModelDecision         = "kvreuse.replay.model.decision" // m_b at the decision's state, seconds
	AttrReplayModelReplay           = "kvreuse.replay.model.replay"   // m_b at the replay's state, seconds
	AttrReplayGPUSeconds            = "kvreuse.replay.cost.gpu"       // charged to the budget, seconds
	AttrReplayLinkBytes             = "kvreuse.replay.cost.bytes"     // charged to the budget
)

// Attributes of OpenTelemetry's GenAI conventions that are read and written
// in place of names of our own.
const (
	AttrGenAIModel       = "gen_ai.request.model"
	AttrGenAIInputTokens = "gen_ai.usage.input_tokens"
	AttrGenAICacheRead   = "gen_ai.usage.cache_read.input_tokens"
)

// Path is how a prefix came to be usable on the worker that ran the request.
// Its values are those of the Enum8 columns and of the wire format: never
// renumber one.
type Path uint8

// The paths. PathNone is "not said", and is never shown as good.
const (
	PathNone      Path = 0
	PathFetch     Path = 1 // moved over a link
	PathRecompute Path = 2 // computed again on the same worker
	PathRoute     Path = 3 // ran on another worker, which holds it
	PathResident  Path = 4 // was in this GPU already
)

var pathNames = [...]string{"", "fetch", "recompute", "route", "resident"}

// String gives the value of AttrPath for p; "" for PathNone and for no path.
func (p Path) String() string { return nameOf(pathNames[:], uint8(p)) }

// ParsePath is the inverse of String. ok is false for a name that is no path;
// "" is PathNone and ok.
func ParsePath(s string) (p Path, ok bool) {
	i, ok := indexOf(pathNames[:], s)
	return Path(i), ok
}

// Tier is where cached state lies.
type Tier uint8

// The tiers. TierNone is "not said" or "from nowhere".
const (
	TierNone   Tier = 0
	TierGPU    Tier = 1
	TierCPU    Tier = 2
	TierDisk   Tier = 3
	TierObject Tier = 4
	TierPeer   Tier = 5
)

var tierNames = [...]string{"", "gpu", "cpu", "disk", "object", "peer"}

// String gives the value of AttrSourceTier for t; "" for TierNone and for no tier.
func (t Tier) String() string { return nameOf(tierNames[:], uint8(t)) }

// ParseTier is the inverse of String. ok is false for a name that is no tier.
func ParseTier(s string) (t Tier, ok bool) {
	i, ok := indexOf(tierNames[:], s)
	return Tier(i), ok
}

// Leg is which question a replay answers.
type Leg uint8

// The legs of a replay.
const (
	LegNone     Leg = 0
	LegRejected Leg = 1 // runs a path that was not taken
	LegControl  Leg = 2 // runs the path that was taken, to measure what replaying changes
)

var legNames = [...]string{"", "rejected", "control"}

// String gives the value of AttrReplayLeg for l.
func (l Leg) String() string { return nameOf(legNames[:], uint8(l)) }

// ParseLeg is the inverse of String. ok is false for a name that is no leg.
func ParseLeg(s string) (l Leg, ok bool) {
	i, ok := indexOf(legNames[:], s)
	return Leg(i), ok
}

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return ""
}

func indexOf(names []string, s string) (int, bool) {
	for i, n := range names {
		if n == s {
			return i, true
		}
	}
	return 0, false
}

// SizeBuckets are the upper bounds, in tokens, of the size buckets of a prefix
// (AttrTokensPrefix): a prefix of n tokens is in the first bucket whose bound
// is at least n, or in the last, which has none.
var SizeBuckets = [...]int64{512, 2048, 8192, 32768}

// SizeBucket gives the bucket of a prefix of n tokens, 0 to len(SizeBuckets).
func SizeBucket(n int64) int {
	for i, b := range SizeBuckets {
		if n <= b {
			return i
		}
	}
	return len(SizeBuckets)
}

// SizeBucketName names bucket i for people: "<=512", ..., ">32768" tokens.
func SizeBucketName(i int) string {
	names := [...]string{"≤512", "513–2,048", "2,049–8,192", "8,193–32,768", ">32,768"}
	if i < 0 || i >= len(names) {
		return ""
	}
	return names[i]
}
