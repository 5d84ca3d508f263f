// Package wire is the Kafka message encoding: batches of length-framed parts
// (topic kvreuse.parts) and dead letters (topic kvreuse.dead).
//
// parts.proto says what the bytes mean. The code is written by hand to it, without
// reflection: the encoder has a line for each field, in the order of their
// numbers; the decoder has lists of the fields of one type.
package wire

import (
	"errors"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Version is the version of the form that this package writes and reads.
const Version = 1

const (
	// MaxMessage is the largest Kafka message that a Batcher makes, in bytes:
	// below the 1 MB that brokers allow by default.
	MaxMessage = 900_000
	// MaxCandidates is how many candidates a part may carry; more is refused,
	// for a few bytes on the wire become some 200 in memory.
	MaxCandidates = 4096
)

// ErrVersion is wrapped by the error of a message whose version this package
// does not know: written by a newer kvwhatif, or no message of ours at all.
var ErrVersion = errors.New("unknown schema version")

// ErrTooLarge is wrapped by the error of a part that fits no message.
var ErrTooLarge = errors.New("part is too large for a Kafka message")

// The functions below give the decoder pointers to the fields of a message that
// have consecutive numbers and one type.

func decisionText(d *schema.Decision) [7]*string { // from 1
	return [...]*string{&d.Policy, &d.Tenant, &d.Model, &d.GPU, &d.Worker, &d.SourceWorker, &d.Link}
}

func decisionCounts(d *schema.Decision) [6]*schema.Count { // from 11
	return [...]*schema.Count{&d.Chosen, &d.TokensPrompt, &d.TokensPrefix, &d.TokensReused, &d.LinkFlows, &d.WorkerActive}
}

func candidateText(c *schema.Candidate) [3]*string { // from 1
	return [...]*string{&c.Worker, &c.Source, &c.Links}
}

func candidateInts(c *schema.Candidate) [4]*int64 { // from 6
	return [...]*int64{&c.TokensResident, &c.TokensFetched, &c.TokensComputed, &c.Bytes}
}

func candidateFloats(c *schema.Candidate) [8]*float64 { // from 10
	return [...]*float64{&c.GPUQueue, &c.TransferQueue, &c.Bandwidth, &c.Restore,
		&c.Recompute, &c.TTFT, &c.Externality, &c.Propensity}
}

func observedSeconds(o *schema.Observed) [8]*schema.Seconds { // from 2
	return [...]*schema.Seconds{&o.GPUQueue, &o.TransferQueue, &o.Transfer, &o.TransferStart,
		&o.ExposedStall, &o.Restore, &o.Prefill, &o.TTFT}
}

func engineCounts(e *schema.Engine) [3]*schema.Count { // from 2
	return [...]*schema.Count{&e.TokensPrompt, &e.TokensCached, &e.TokensOutput}
}

func engineSeconds(e *schema.Engine) [5]*schema.Seconds { // from 5
	return [...]*schema.Seconds{&e.Queue, &e.Prefill, &e.Decode, &e.TTFT, &e.E2E}
}

func transferText(t *schema.Transfer) [3]*string { // from 1
	return [...]*string{&t.Operation, &t.Source, &t.Link}
}

func transferCounts(t *schema.Transfer) [2]*schema.Count { // from 5
	return [...]*schema.Count{&t.Tokens, &t.Bytes}
}

func transferSeconds(t *schema.Transfer) [2]*schema.Seconds { // from 7
	return [...]*schema.Seconds{&t.Queue, &t.Duration}
}

func replayText(r *schema.Replay) [2]*string { // from 1
	return [...]*string{&r.Plan, &r.Batch}
}

func replayCounts(r *schema.Replay) [4]*schema.Count { // from 8
	return [...]*schema.Count{&r.Candidate, &r.DecisionFlows, &r.ReplayFlows, &r.CostBytes}
}

func replaySeconds(r *schema.Replay) [5]*schema.Seconds { // from 12
	return [...]*schema.Seconds{&r.DecisionGPUQueue, &r.ReplayGPUQueue, &r.ModelDecision, &r.ModelReplay, &r.CostGPU}
}

func letterText(l *DeadLetter) [4]*string { // from 2
	return [...]*string{&l.Reason, &l.Source, &l.Adapter, &l.Topic}
}

func letterInts(l *DeadLetter) [3]*int64 { // from 6
	return [...]*int64{&l.Partition, &l.Offset, &l.Index}
}
