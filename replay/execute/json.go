package execute

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
)

// number is a float64 whose NaN is null in JSON, which has no NaN.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

type stateJSON struct {
	GPUQueue number `json:"gpu_queue"`
	Flows    number `json:"flows"`
}

type candidateJSON struct {
	Path           string `json:"path"`
	Worker         string `json:"worker"`
	Source         string `json:"source,omitempty"`
	Tier           string `json:"tier,omitempty"`
	Links          string `json:"links,omitempty"`
	TokensResident int64  `json:"tokens_resident"`
	TokensFetched  int64  `json:"tokens_fetched"`
	TokensComputed int64  `json:"tokens_computed"`
	Bytes          int64  `json:"bytes"`
	GPUQueue       number `json:"gpu_queue"`
	TransferQueue  number `json:"transfer_queue"`
	Bandwidth      number `json:"bandwidth"`
	Restore        number `json:"restore"`
	Recompute      number `json:"recompute"`
	TTFT           number `json:"ttft"`
	Externality    number `json:"externality"`
	Propensity     number `json:"propensity"`
}

type legJSON struct {
	ID             string        `json:"id"`
	Kind           string        `json:"kind"`
	Of             string        `json:"of"`
	OfSpan         string        `json:"of_span"`
	Plan           string        `json:"plan"`
	Stratum        string        `json:"stratum"`
	Batch          string        `json:"batch"`
	Inclusion      float64       `json:"inclusion"`
	Path           string        `json:"path"`
	CandidateIndex int           `json:"candidate_index"`
	Candidate      candidateJSON `json:"candidate"`
	Model          string        `json:"model"`
	GPU            string        `json:"gpu"`
	Link           string        `json:"link,omitempty"`
	TokensPrompt   int64         `json:"tokens_prompt"`
	TokensPrefix   int64         `json:"tokens_prefix"`
	PrefixBlocks   []int64       `json:"prefix_blocks,omitempty"`
	Salt           string        `json:"salt"`
	DecidedNanos   int64         `json:"decided_unix_nanos"`
	Decision       stateJSON     `json:"decision_state"`
	ModelDecision  number        `json:"model_decision"`
}

// MarshalJSON writes names for paths, tiers and ids, and null for NaN.
func (l Leg) MarshalJSON() ([]byte, error) {
	c := &l.Candidate
	return json.Marshal(legJSON{
		ID: l.ID, Kind: l.Kind.String(), Of: l.Of.String(), OfSpan: l.OfSpan.String(),
		Plan: l.Plan, Stratum: l.Stratum, Batch: l.Batch, Inclusion: l.Inclusion,
		Path: l.Path.String(), CandidateIndex: l.CandidateIndex, Model: l.Model, GPU: l.GPU, Link: l.Link,
		TokensPrompt: l.TokensPrompt, TokensPrefix: l.TokensPrefix, PrefixBlocks: l.PrefixBlocks, Salt: l.Salt,
		DecidedNanos: l.DecidedNanos, Decision: stateJSON{number(l.Decision.GPUQueue), number(l.Decision.Flows)},
		ModelDecision: number(l.ModelDecision),
		Candidate: candidateJSON{
			Path: c.Path.String(), Worker: c.Worker, Source: c.Source, Tier: c.Tier.String(), Links: c.Links,
			TokensResident: c.TokensResident, TokensFetched: c.TokensFetched, TokensComputed: c.TokensComputed, Bytes: c.Bytes,
			GPUQueue: number(c.GPUQueue), TransferQueue: number(c.TransferQueue), Bandwidth: number(c.Bandwidth),
			Restore: number(c.Restore), Recompute: number(c.Recompute), TTFT: number(c.TTFT),
			Externality: number(c.Externality), Propensity: number(c.Propensity),
		},
	})
}

// UnmarshalJSON is the inverse of MarshalJSON. It refuses names and ids that are
// none.
func (l *Leg) UnmarshalJSON(b []byte) error {
	var j legJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("read a leg: %w", err)
	}
	*l = Leg{
		ID: j.ID, Plan: j.Plan, Stratum: j.Stratum, Batch: j.Batch, Inclusion: j.Inclusion,
		CandidateIndex: j.CandidateIndex, Model: j.Model, GPU: j.GPU, Link: j.Link,
		TokensPrompt: j.TokensPrompt, TokensPrefix: j.TokensPrefix, PrefixBlocks: j.PrefixBlocks, Salt: j.Salt,
		DecidedNanos: j.DecidedNanos, Decision: State{float64(j.Decision.GPUQueue), float64(j.Decision.Flows)},
		ModelDecision: float64(j.ModelDecision), Candidate: j.Candidate.values(),
	}
	var kind, path, own, tier bool
	l.Kind, kind = schema.ParseLeg(j.Kind)
	l.Path, path = schema.ParsePath(j.Path)
	l.Candidate.Path, own = schema.ParsePath(j.Candidate.Path)
	l.Candidate.Tier, tier = schema.ParseTier(j.Candidate.Tier)
	if !kind || !path || !own || !tier {
		return fmt.Errorf("read leg %q: no such kind, path or tier among %q, %q, %q, %q", j.ID, j.Kind, j.Path, j.Candidate.Path, j.Candidate.Tier)
	}
	if err := parseID(l.Of[:], j.Of); err != nil {
		return fmt.Errorf("read leg %q: of: %w", j.ID, err)
	}
	if err := parseID(l.OfSpan[:], j.OfSpan); err != nil {
		return fmt.Errorf("read leg %q: of_span: %w", j.ID, err)
	}
	return nil
}

func (j *candidateJSON) values() schema.Candidate {
	return schema.Candidate{
		Worker: j.Worker, Source: j.Source, Links: j.Links,
		TokensResident: j.TokensResident, TokensFetched: j.TokensFetched, TokensComputed: j.TokensComputed, Bytes: j.Bytes,
		GPUQueue: float64(j.GPUQueue), TransferQueue: float64(j.TransferQueue), Bandwidth: float64(j.Bandwidth),
		Restore: float64(j.Restore), Recompute: float64(j.Recompute), TTFT: float64(j.TTFT),
		Externality: float64(j.Externality), Propensity: float64(j.Propensity),
	}
}

func parseID(id []byte, text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return fmt.Errorf("%q is not %d hex digits", text, 2*len(id))
	}
	copy(id, raw)
	return nil
}
