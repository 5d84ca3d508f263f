package estimate

import (
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"gonum.org/v1/gonum/stat/distuv"
)

// windowVariance is the variance of the mean over these very requests, in three
// parts. The draw's: N⁻² Σ R(1−π)/π² e², with e = ỹ* − δ − m, and with it the
// noise of the replay and of the path not taken, which no draw of all requests
// would remove: at most N⁻² Σ R·2/π (e − ē)². That of δ. And what legs of a batch
// share, rejected and control legs alike: the products of their errors, which
// may also cancel, but are not trusted to take away more than a fifth. There the
// error is what a line through all of the pair's legs leaves, not e, whose mean
// moves with the recalibration.
func (s *population) windowVariance() (draw, delta, batches float64) {
	n, mean := float64(len(s.rows)), s.meanResidual()
	line, own, shared := s.line(), 0.0, map[string]float64{}
	for i := range s.rows {
		r := &s.rows[i]
		if r.weight == 0 {
			continue
		}
		e := s.residual(r)
		draw += ((r.weight*r.weight-r.weight)*e*e + 2*r.weight*(e-mean)*(e-mean)) / (n * n)
		part := r.weight * (r.carried - line.through(r.request.Model[s.to])) / n
		own += part * part
		shared[r.batch] += part
	}
	share := s.meanWeight()
	for batch, part := range s.delta.batches {
		shared[batch] -= share * part
	}
	delta = share * share * s.delta.variance
	return draw, delta, math.Max(-0.2*(draw+delta), sumSquares(shared)-own-share*share*s.delta.observed)
}

// spread is the variance of one replay as the rejected legs show it: that about a
// line on their prediction, less what the prediction misses by itself, which
// requests that chose the path show; and less twice the sampling error of that
// difference, for where replays are exact it is noise.
func (s *population) spread(missed, choosers float64) (v float64) {
	line, weights, n := s.line(), 0.0, 0.0
	for i := range s.rows {
		if r := &s.rows[i]; r.weight > 0 {
			e := r.carried - line.through(r.request.Model[s.to])
			v += r.weight * e * e
			weights += r.weight
			n++
		}
	}
	v *= n / weights / math.Max(1, n-2)
	return math.Max(0, v-missed-2*math.Sqrt(2*(v*v/n+missed*missed/math.Max(1, choosers))))
}

// missed is the variance of the TTFT of requests that chose b about a line on
// their prediction, and how many they are.
func (ix *index) missed(b schema.Path) (v, n float64) {
	var line fit
	each := func(f func(x, y float64)) {
		for _, r := range ix.requests {
			if r.Path == b && finite(r.Y) && finite(r.Model[b]) {
				f(r.Model[b], r.Y)
			}
		}
	}
	each(line.add)
	each(func(x, y float64) {
		e := y - line.through(x)
		v += e * e
	})
	return v / math.Max(1, line.n-2), line.n
}

// line fits ỹ* on the logged m_b over every leg of the pair.
func (s *population) line() (f fit) {
	for i := range s.rows {
		if r := &s.rows[i]; r.weight > 0 {
			f.add(r.request.Model[s.to], r.carried)
		}
	}
	return f
}

func (s *population) meanResidual() float64 {
	sum, weights := 0.0, 0.0
	for i := range s.rows {
		sum += s.rows[i].weight * s.residual(&s.rows[i])
		weights += s.rows[i].weight
	}
	return sum / weights
}

// nextHourVariance is the variance of the mean over blocks of time, each block
// holding every worker, for requests of one time share its weather.
func (s *population) nextHourVariance(theta float64) (variance float64, blocks int) {
	sums := map[int64]float64{}
	for i := range s.rows {
		sums[s.rows[i].request.Block] += s.phi(&s.rows[i]) - theta
	}
	n, k := float64(len(s.rows)), float64(len(sums))
	if k < 2 {
		return 0, len(sums)
	}
	return sumSquares(sums) / (n * n) * k / (k - 1), len(sums)
}

// plainVariance is the variance of the mean of independent requests.
func (s *population) plainVariance(theta float64) float64 {
	sum, n := 0.0, float64(len(s.rows))
	for i := range s.rows {
		d := s.phi(&s.rows[i]) - theta
		sum += d * d
	}
	return sum / (n * n)
}

// meanWeight is Σ R/(π q̂) / N, the weight with which δ enters the mean: about 1.
func (s *population) meanWeight() float64 {
	weights := 0.0
	for _, r := range s.rows {
		weights += r.weight
	}
	return weights / float64(len(s.rows))
}

// part is one independent part of a variance with its degrees of freedom.
type part struct{ variance, df float64 }

// interval is Student's, with the degrees of freedom of a sum of variances by
// Satterthwaite (1946).
func interval(mid, level float64, parts ...part) Interval {
	total, below := 0.0, 0.0
	for _, p := range parts {
		total += p.variance
		if p.variance > 0 {
			below += p.variance * p.variance / math.Max(1, p.df)
		}
	}
	if total == 0 {
		return Interval{mid, mid, 0}
	}
	half := quantile(level, total*total/below) * math.Sqrt(total)
	return Interval{mid - half, mid + half, math.Sqrt(total)}
}

// quantile is the two-sided quantile of Student's t.
func quantile(level, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - (1-level)/2)
}

// Difference is the result of a paired comparison; its unit is that of the data.
type Difference struct {
	Mean   float64 // of b − a: positive where a was less
	Lo, Hi float64
	N      int    // pairs used
	Blocks int    // of time, or runs
	Why    string // why there is no interval; "" where there is one
}

// AcrossRuns is the mean of differences between arms, one of each pair of whole
// runs on noise of its own, with a 95 % interval by Student's t over the runs.
// Within one run of a loaded system all that follows hangs together, so that blocks
// of its time look surer than they are; runs are independent. pairs is how many
// requests were paired in all. With fewer than three runs it gives no interval.
func AcrossRuns(differences []float64, pairs int) Difference {
	n := float64(len(differences))
	out := Difference{Lo: math.NaN(), Hi: math.NaN(), N: pairs, Blocks: len(differences)}
	for _, d := range differences {
		out.Mean += d / n
	}
	if len(differences) < 3 {
		out.Why = "fewer than three runs"
		return out
	}
	v := 0.0
	for _, d := range differences {
		v += (d - out.Mean) * (d - out.Mean) / (n * (n - 1))
	}
	i := interval(out.Mean, 0.95, part{v, n - 1})
	out.Lo, out.Hi = i.Lo, i.Hi
	return out
}

// Paired compares two arms that ran the same requests, a[i] with b[i], such as
// two policies in whole runs with feedback: the mean of b − a with a 95 %
// interval over blocks of time. A pair with a NaN is left out. With fewer than
// five blocks it gives no interval, and says so.
func Paired(a, b []float64, block []int) Difference {
	if len(a) != len(b) || len(a) != len(block) {
		return Difference{Mean: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Why: "the arms and their blocks differ in length"}
	}
	sums, counts := map[int64]float64{}, map[int64]float64{}
	out, total := Difference{Lo: math.NaN(), Hi: math.NaN()}, 0.0
	for i := range a {
		if d := b[i] - a[i]; finite(d) {
			sums[int64(block[i])] += d
			counts[int64(block[i])]++
			total += d
			out.N++
		}
	}
	out.Mean, out.Blocks = total/float64(out.N), len(sums)
	if out.Blocks < 5 {
		out.Why = "fewer than five blocks of time"
		return out
	}
	for k := range sums {
		sums[k] -= out.Mean * counts[k]
	}
	n, k := float64(out.N), float64(out.Blocks)
	v := sumSquares(sums) / (n * n) * k / (k - 1)
	i := interval(out.Mean, 0.95, part{v, k - 1})
	out.Lo, out.Hi = i.Lo, i.Hi
	return out
}
