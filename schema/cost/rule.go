package cost

import (
	"fmt"
	"math"
)

// RuleInput is one question to the rule: a prefix of Bytes that becomes usable on
// one worker, over a link that is shared by each number of Sharers in turn.
type RuleInput struct {
	Bytes         float64   // S
	Law           Transfer  // t0 and the link; Cold is not added
	GPUQueue      float64   // Qg, seconds
	TransferQueue float64   // Qn beyond t0, seconds
	Restore       float64   // D, seconds
	Recompute     float64   // C of the prefix, seconds
	Sharers       []float64 // transfers on the link, this one included; at least 1 each
}

// RuleRow is the rule's answer for one number of sharers. Seconds.
type RuleRow struct {
	Sharers   float64
	Wire      float64 // S/Beff
	Fetch     float64 // max(Qg, Qn + S/Beff) + D
	Recompute float64 // Qg + C
	Imposed   float64 // delay of the other transfers if all are equal and begin together
	Winner    string  // "fetch", "recompute" or "tie"
	Why       string  // one sentence
}

// Rule answers in for each number of sharers.
func Rule(in RuleInput) []RuleRow {
	rows := make([]RuleRow, 0, len(in.Sharers))
	for _, c := range in.Sharers {
		c = max(1, c)
		wire := in.Law.WireSeconds(in.Bytes, c)
		seed := SeedInput{
			Bytes: in.Bytes, Bandwidth: in.Bytes / wire, GPUQueue: in.GPUQueue,
			TransferQueue: in.Law.T0 + in.TransferQueue, Restore: in.Restore, Recompute: in.Recompute,
		}
		row := RuleRow{Sharers: c, Wire: wire, Fetch: seed.FetchSeconds(), Recompute: seed.RecomputeSeconds()}
		size := in.Law.WireBytes(in.Bytes)
		row.Imposed = MeanExternality(in.Law.Link, size, c-1, size)
		row.Winner, row.Why = verdict(seed, row)
		rows = append(rows, row)
	}
	return rows
}

func verdict(seed SeedInput, row RuleRow) (winner, why string) {
	switch margin := row.Fetch - row.Recompute; {
	case math.IsNaN(margin):
		return "unknown", "a term is missing"
	case margin == 0:
		return "tie", "both take " + millis(row.Fetch)
	case margin > 0:
		return "recompute", fmt.Sprintf("computing the prefix takes %s, %s %s longer",
			millis(seed.Recompute), fetchReason(seed, row), millis(margin))
	case seed.GPUQueue >= seed.TransferQueue+row.Wire:
		return "fetch", fmt.Sprintf("the transfer ends while the request waits %s for the GPU; computing would add %s",
			millis(seed.GPUQueue), millis(-margin))
	default:
		return "fetch", fmt.Sprintf("%s on the wire replaces %s of computing and saves %s",
			millis(row.Wire), millis(seed.Recompute), millis(-margin))
	}
}

// fetchReason names the largest term of a fetch that loses.
func fetchReason(seed SeedInput, row RuleRow) string {
	switch {
	case seed.Restore >= row.Wire && seed.Restore >= seed.TransferQueue:
		return fmt.Sprintf("restoring %s makes the fetch", millis(seed.Restore))
	case seed.TransferQueue >= row.Wire:
		return fmt.Sprintf("waiting %s for the first byte makes the fetch", millis(seed.TransferQueue))
	default:
		return fmt.Sprintf("%s on a wire shared by %.4g makes the fetch", millis(row.Wire), row.Sharers)
	}
}

// millis writes seconds as milliseconds for people: "21.5 ms".
func millis(s float64) string {
	ms := s * 1e3
	if ms >= 100 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
