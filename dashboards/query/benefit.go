package query

import (
	"context"
	"fmt"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// What a measured benefit needs, and the level of all intervals made here.
const (
	minLegs   = 20 // replays
	minBlocks = 5  // blocks of time
	level     = 0.95
)

// dimension is what a benefit is broken down by: the column of slices, and that
// of estimates.
type dimension struct{ by, slices, estimates string }

var dimensions = []dimension{
	{"path", "toString(path)", "toString(pair_from)"},
	{"tier", "toString(tier)", "tier"},
	{"link", "link", "link"},
	{"size", "toString(size_bucket)", "toString(size_bucket)"},
	{"policy", "policy", "policy"},
}

// Benefit gives the mean benefit by path, tier, link, size bucket and policy.
// Except by path, it is that of fetched requests against recomputing.
func Benefit(ctx context.Context, conn driver.Conn, w Window) (out []report.Benefit, err error) {
	for _, d := range dimensions {
		part, err := benefitBy(ctx, conn, w, d)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

func benefitBy(ctx context.Context, conn driver.Conn, w Window, d dimension) ([]report.Benefit, error) {
	measured, err := measuredBy(ctx, conn, w, d)
	if err != nil {
		return nil, err
	}
	filter := "path = 'fetch'"
	if d.by == "path" {
		filter = "path != ''"
	}
	var out []report.Benefit
	sql := "SELECT " + d.slices + " AS name, sum(n), sum(hurt), sum(unknown) AS missing, sum(sum_benefit), sum(sum_benefit2) FROM " + w.slices() +
		" WHERE " + filter + " GROUP BY name ORDER BY name"
	err = rows(ctx, conn, "benefit by "+d.by, sql, func(r driver.Rows) error {
		var name string
		var n, hurt, unknown uint64
		var sum, sum2 float64
		if err := r.Scan(&name, &n, &hurt, &unknown, &sum, &sum2); err != nil || n == 0 {
			return err
		}
		b := report.Benefit{By: d.by, Name: name, Requests: int64(n), Hurt: int64(hurt), Unknown: int64(unknown), Predicted: ofMoments(n-unknown, sum, sum2)}
		if d.by == "size" {
			b.Name = sizeName(name)
		}
		measured[name].set(&b)
		out = append(out, b)
		return nil
	})
	return out, err
}

// ofMoments is the mean of n independent values from Σx and Σx²; nil below 2.
func ofMoments(n uint64, sum, sum2 float64) *report.Interval {
	if n < 2 {
		return nil
	}
	k := float64(n)
	mean := sum / k
	variance := math.Max(0, sum2/k-mean*mean) * k / (k - 1)
	half := quantile(k-1) * math.Sqrt(variance/k)
	return &report.Interval{Value: mean, Low: mean - half, High: mean + half, Level: level, N: int64(n)}
}

// quantile is that of Student's t for a two-sided interval of the level.
func quantile(df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - (1-level)/2)
}

// block is what the estimates of one block of time say of one slice.
type block struct {
	n, legs  float64
	sum      float64 // Σφ, seconds
	deltaVar float64 // of the correction, which all blocks share
}

// measurement is the blocks of one slice; nil: there are none.
type measurement struct {
	blocks []block
	reason string // of a part of it that was refused
}

func measuredBy(ctx context.Context, conn driver.Conn, w Window, d dimension) (map[string]*measurement, error) {
	pair := "pair_from = 'fetch' AND pair_to = 'recompute'"
	if d.by == "path" { // each against its usual alternative
		pair = "(pair_to = if(pair_from = 'recompute', 'fetch', 'recompute'))"
	}
	out := map[string]*measurement{}
	sql := "SELECT " + d.estimates + " AS name, toFloat64(sumIf(n, reason = '')), toFloat64(sumIf(legs, reason = '')), sumIf(sum_phi, reason = ''), max(ifNull(delta_var, 0)), anyIf(reason, reason != '') FROM estimates FINAL" +
		" WHERE lower(estimator) = 'aipw' AND " + pair + " AND " + w.where("block") + w.only() + " GROUP BY name, block ORDER BY name, block"
	err := rows(ctx, conn, "estimates by "+d.by, sql, func(r driver.Rows) error {
		var name, reason string
		var b block
		if err := r.Scan(&name, &b.n, &b.legs, &b.sum, &b.deltaVar, &reason); err != nil {
			return err
		}
		if out[name] == nil {
			out[name] = &measurement{}
		}
		out[name].reason = max(out[name].reason, reason)
		if b.n > 0 {
			out[name].blocks = append(out[name].blocks, b)
		}
		return nil
	})
	return out, err
}

// set puts the measurement beside the prediction, or why there is none. The
// estimate is ΣS/Σn over the blocks; its variance is that between blocks of
// time, Σ(S − estimate·n)²/(Σn)²·K/(K−1), and that of the correction.
func (m *measurement) set(b *report.Benefit) {
	b.Unmeasured = report.Num(1)
	if m == nil {
		b.Reason = "nothing was estimated here"
		if b.Unknown >= b.Requests {
			b.Reason = "no request here has a predicted alternative"
		}
		return
	}
	var n, legs, sum, deltaVar float64
	for _, k := range m.blocks {
		n, legs, sum, deltaVar = n+k.n, legs+k.legs, sum+k.sum, math.Max(deltaVar, k.deltaVar)
	}
	blocks := float64(len(m.blocks))
	switch {
	case n == 0 && m.reason != "":
		b.Reason = m.reason
		return
	case legs < minLegs:
		b.Reason = fmt.Sprintf("%s came back, and an interval needs %d", counted(legs, "replay", "replays"), minLegs)
		return
	case blocks < minBlocks:
		b.Reason = fmt.Sprintf("%s with replays, and an interval needs %d", counted(blocks, "block of time", "blocks of time"), minBlocks)
		return
	}
	b.Unmeasured = report.Num(1 - math.Min(1, n/float64(b.Requests)))
	mean, variance := sum/n, 0.0
	for _, k := range m.blocks {
		d := k.sum - mean*k.n
		variance += d * d
	}
	variance = variance/(n*n)*blocks/(blocks-1) + deltaVar
	half := quantile(blocks-1) * math.Sqrt(variance)
	b.Measured = &report.Interval{Value: mean, Low: mean - half, High: mean + half, Level: level, N: int64(legs)}
}

// counted is a number with its noun: "1 replay".
func counted(n float64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%.0f %s", n, many)
}

// Stages gives where the mean TTFT went, by path and link.
func Stages(ctx context.Context, conn driver.Conn, w Window) (out []report.Stages, err error) {
	sql := `SELECT toString(path) AS p, link, sum(n_stages) AS k, sum(sum_gpu_queue), sum(sum_exposed_stall), sum(sum_restore), sum(sum_prefill), sum(sum_remainder), sum(sum_ttft_stages)
FROM ` + w.slices() + ` GROUP BY path, link HAVING k > 0 ORDER BY path, link`
	err = rows(ctx, conn, "stages", sql, func(r driver.Rows) error {
		var s report.Stages
		var n uint64
		err := r.Scan(&s.Path, &s.Link, &n, &s.GPUQueue, &s.ExposedStall, &s.Restore, &s.Prefill, &s.Remainder, &s.TTFT)
		s.Requests = int64(n)
		for _, v := range []*float64{&s.GPUQueue, &s.ExposedStall, &s.Restore, &s.Prefill, &s.Remainder, &s.TTFT} {
			*v /= float64(n)
		}
		out = append(out, s)
		return err
	})
	return out, err
}
