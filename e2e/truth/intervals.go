package main

import (
	"math"
	"runtime"
	"strconv"
	"sync"

	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/schema"
)

const level = 0.9 // of the intervals here

// found is one world: its truth and what was estimated.
type found struct {
	report estimate.Report
	truth  worldTruth
}

// draw runs worlds on all processors.
func draw[T any](n int, f func(seed uint64) T) []T {
	out := make([]T, n)
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				out[i] = f(uint64(i))
			}
		})
	}
	all.Wait()
	return out
}

func findings(n int) []found {
	return draw(n, func(seed uint64) found {
		in, truth := newWorld(seed)
		return found{estimate.Estimate(in, estimate.Options{Level: level}), truth}
	})
}

func (f *found) pair(to schema.Path) *estimate.Pair {
	for i := range f.report.Pairs {
		if p := &f.report.Pairs[i]; p.From == schema.PathFetch && p.To == to {
			return p
		}
	}
	return nil
}

// slice is the pair within one size; size worldSizes is the pair as a whole, where
// the family is of no meaning.
func (f *found) slice(to schema.Path, size int) estimate.SliceEstimate {
	for _, s := range f.report.Slices {
		if s.Dimension == "size" && s.Value == schema.SizeBucketName(size) && s.Pair.From == schema.PathFetch && s.Pair.To == to {
			return s
		}
	}
	return estimate.SliceEstimate{}
}

func covers(i estimate.Interval, truth float64) float64 {
	if i.Lo <= truth && truth <= i.Hi {
		return 1
	}
	return 0
}

// slack is what chance may add to a bound on a share over n worlds; nothing where
// they are many.
func slack(n float64, share float64) float64 {
	if n >= 500 {
		return 0
	}
	return 3 * math.Sqrt(share*(1-share)/n)
}

// intervals shows how often 90 % intervals cover, by slice of 2,000 requests in
// order of time, and how often those of all slices do at once.
func intervals(worlds []found, n size) (Section, error) {
	s := Section{
		Title: "Intervals: " + strconv.Itoa(n.worlds) + " worlds, 90 %, 2,000 requests a slice in order of time",
		Head:  []string{"pair", "slice", "known", "covered", "mean width ms", "all slices at once", "next hour"},
		Notes: []string{
			"next hour: of the mean over all worlds, by blocks of time; the window's is of the very requests",
			"all slices at once: every interval of the family covers (Bonferroni: slices share legs and corrections)",
		},
	}
	total, known := 0.0, 0.0
	for _, to := range []schema.Path{schema.PathRecompute, schema.PathRoute} {
		for size := range worldSizes {
			c := coverage(worlds, to, size)
			total, known = total+c.covered, known+c.known
			s.row("fetch→"+to.String(), schema.SizeBucketName(size), percent(c.known/float64(n.worlds)), percent(c.covered/c.known), millis(c.width/c.known), "", "")
			s.check("covered, fetch→"+to.String()+" "+schema.SizeBucketName(size), c.covered/c.known, 0.87-slack(c.known, 0.9), 0.93+slack(c.known, 0.9))
		}
		family, next, all := together(worlds, to)
		s.row("fetch→"+to.String(), "all", percent(all/float64(n.worlds)), "", "", percent(family/all), percent(next/all))
		s.check("family, fetch→"+to.String(), family/all, 0.87-slack(all, 0.9), 1)
	}
	s.check("covered, all slices", total/known, 0.87-slack(float64(n.worlds), 0.9), 0.93+slack(float64(n.worlds), 0.9))
	return s, nil
}

type tally struct{ known, covered, width float64 }

func coverage(worlds []found, to schema.Path, size int) (t tally) {
	for i := range worlds {
		p := worlds[i].slice(to, size).Pair
		if !p.Known {
			continue
		}
		t.known++
		t.covered += covers(p.Window, worlds[i].truth[to][size])
		t.width += p.Window.Hi - p.Window.Lo
	}
	return t
}

// together counts worlds in which the whole family covers, and those whose next
// hour does.
func together(worlds []found, to schema.Path) (family, next, n float64) {
	mean := 0.0
	for i := range worlds {
		mean += worlds[i].truth[to][worldSizes] / float64(len(worlds))
	}
	for i := range worlds {
		p := worlds[i].pair(to)
		if p == nil || !p.Known {
			continue
		}
		n++
		next += covers(p.NextHour, mean)
		held := 1.0
		for size := range worldSizes {
			if s := worlds[i].slice(to, size); s.Pair.Known {
				held *= covers(s.Family, worlds[i].truth[to][size])
			}
		}
		family += held
	}
	return family, next, n
}

// estimators shows how far each is off, as a share of the mean chosen TTFT.
func estimators(worlds []found, n size) (Section, error) {
	s := Section{
		Title: "Estimators: mean error over " + strconv.Itoa(n.worlds) + " worlds, % of the mean chosen TTFT",
		Head:  []string{"pair", "naive", "direct", "IPW", "SNIPW", "AIPW"},
		Notes: []string{"spread: standard deviation over worlds, same unit; direct has no legs of its own block and leans on the model"},
	}
	for _, to := range []schema.Path{schema.PathRecompute, schema.PathRoute} {
		var sum, square [5]float64
		chosen, known := 0.0, 0.0
		for i := range worlds {
			p := worlds[i].pair(to)
			if p == nil || !p.Known {
				continue
			}
			known++
			chosen += p.MeanChosen
			for k, x := range [5]float64{p.Naive, p.Direct, p.IPW, p.SNIPW, p.Theta} {
				e := x - worlds[i].truth[to][worldSizes]
				sum[k] += e
				square[k] += e * e
			}
		}
		bias, spread := []string{"fetch→" + to.String()}, []string{"  spread"}
		for k := range sum {
			bias = append(bias, percent(sum[k]/chosen))
			spread = append(spread, percent(math.Sqrt(square[k]/known-sum[k]*sum[k]/known/known)/(chosen/known)))
		}
		s.Rows = append(s.Rows, bias, spread)
		s.check("AIPW, fetch→"+to.String(), math.Abs(sum[4]/chosen), 0, 0.02)
		s.check("naive, fetch→"+to.String()+": the world must be hard", math.Abs(sum[0]/chosen), 0.1, 100)
	}
	return s, nil
}
