package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

const (
	// maxFlowsFitted bounds the work of a fit: beyond it every k-th flow is fitted,
	// and all of them still count in the overlaps.
	maxFlowsFitted = 20_000
	// minSharing is the share of time that must be spent among others before γ and
	// b1 can be told from B.
	minSharing = 0.02
	// warmShare of the window passes before a pair that is new in it counts as cold.
	warmShare = 0.1
	minCold   = 5 // pairs
)

// flow is a transfer as the fit of the wire sees it.
type flow struct {
	bytes    float64
	logBytes float64
	seconds  float64
	shares   []share
}

// Transfers fits every (tier, link) of obs; flows of all tiers of a link share it.
func Transfers(obs []TransferObs, minN int) (fits []schema.TransferFit, skipped []Skipped) {
	obs = slices.DeleteFunc(slices.Clone(obs), func(o TransferObs) bool {
		return !(o.Bytes > 0) || !(o.End > o.Start)
	})
	slices.SortStableFunc(obs, func(a, b TransferObs) int { return compareFloat(a.Start, b.Start) })
	for _, link := range groups(obs, func(o TransferObs) string { return o.Link }) {
		shares := overlaps(link)
		for _, tier := range groupIndices(link, func(o TransferObs) string { return o.Tier }) {
			part, partShares := pick(link, tier), pick(shares, tier)
			key := part[0].Tier + " " + part[0].Link
			if len(part) < minN {
				skipped = append(skipped, Skipped{"transfer", key, len(part), fmt.Sprintf("fewer than %d transfers", minN)})
				continue
			}
			law, q, err := fitTransfer(part, partShares)
			if err != nil {
				skipped = append(skipped, Skipped{"transfer", key, len(part), err.Error()})
				continue
			}
			fits = append(fits, schema.TransferFit{Tier: part[0].Tier, Link: part[0].Link, Law: law, Quality: q})
		}
	}
	return fits, skipped
}

// fitTransfer fits one (tier, link). The covariance is over t0, cold, bend, b,
// b1, gamma, in that order.
func fitTransfer(obs []TransferObs, shares [][]share) (cost.Transfer, schema.Quality, error) {
	q := schema.Quality{N: int64(len(obs))}
	flows := make([]flow, 0, len(obs))
	step := (len(obs) + maxFlowsFitted - 1) / maxFlowsFitted
	for i, o := range obs {
		q.MaxBytes = max(q.MaxBytes, o.Bytes)
		for _, s := range shares[i] {
			q.MaxConcurrent = max(q.MaxConcurrent, countOf(s.level))
		}
		if i%step == 0 {
			flows = append(flows, flow{bytes: o.Bytes, logBytes: math.Log(o.Bytes), seconds: o.End - o.Start, shares: shares[i]})
		}
	}
	wire, covariance, err := fitWire(flows, &q)
	if err != nil {
		return cost.Transfer{}, q, err
	}
	fixed := fixedCosts(obs)
	law := wire.law()
	law.T0, law.Cold = fixed.t0, fixed.cold
	q.Covariance = make([]float64, 36)
	q.Covariance[0], q.Covariance[7] = fixed.varT0, fixed.varCold
	for a := range 4 {
		for b := range 4 {
			q.Covariance[(a+2)*6+b+2] = covariance[a*4+b]
		}
	}
	return law, q, nil
}

type fixed struct{ t0, cold, varT0, varCold float64 }

// fixedCosts finds t0 as the median wait for the first byte, and cold as what the
// first use of a pair adds to it: of pairs that were not seen in the first tenth
// of the window, for the others may have been used before it.
func fixedCosts(obs []TransferObs) (out fixed) {
	from := obs[0].Start + warmShare*(obs[len(obs)-1].Start-obs[0].Start)
	seen := map[string]bool{}
	var first, later []float64
	for _, o := range obs {
		isNew := !seen[o.Pair]
		seen[o.Pair] = true
		switch {
		case !(o.Queue >= 0):
		case isNew && o.Pair != "" && o.Start > from:
			first = append(first, o.Queue)
		default:
			later = append(later, o.Queue)
		}
	}
	if len(later) == 0 {
		return out
	}
	out.t0, out.varT0 = medianOf(later)
	if len(first) >= minCold {
		median, variance := medianOf(first)
		out.cold = math.Max(0, median-out.t0)
		out.varCold = variance + out.varT0
	}
	return out
}

// medianOf gives the median and the variance of it, by the distance of the order
// statistics a standard error to both sides.
func medianOf(v []float64) (median, variance float64) {
	slices.Sort(v)
	half := 0.5 / math.Sqrt(float64(len(v)))
	low, high := quantile(v, math.Max(0, 0.5-half)), quantile(v, math.Min(1, 0.5+half))
	return quantile(v, 0.5), sq((high - low) / 2)
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// groupIndices gives the indices of each group, groups in order of appearance.
func groupIndices[T any](list []T, key func(T) string) [][]int {
	at := map[string]int{}
	var out [][]int
	for i, v := range list {
		k := key(v)
		g, ok := at[k]
		if !ok {
			g = len(out)
			at[k] = g
			out = append(out, nil)
		}
		out[g] = append(out[g], i)
	}
	return out
}

func groups[T any](list []T, key func(T) string) [][]T {
	var out [][]T
	for _, at := range groupIndices(list, key) {
		out = append(out, pick(list, at))
	}
	return out
}

func pick[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for k, i := range at {
		out[k] = list[i]
	}
	return out
}
