package evaluate

import (
	"fmt"
	"math"
	"sort"

	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// LinkChange is what a policy would do to the load of one link.
type LinkChange struct {
	Link     string
	Capacity float64 // bytes/s; 0 where it is not known
	Logged   float64 // bytes/s, as decided
	Policy   float64 // bytes/s, as the policy would decide
	Change   float64 // of the load: a share of the capacity or, where it is not known, of the larger of the two
}

// Feedback is what a policy would do to what others wait for. Above Limit a change
// of load changes queues, and an estimate that moves one request at a time, with
// the queues as they were, is not of this policy.
type Feedback struct {
	Links      []LinkChange // by falling change
	GPULogged  float64      // seconds of computing, as decided
	GPUPolicy  float64
	GPUSeconds float64 // that the workers had; 0 where it is not known
	GPUChange  float64 // of the load: a share of GPUSeconds or, where it is not known, of the larger of the two
	Limit      float64
	Carries    bool   // some change is above the limit
	Why        string // what decides
}

// DefaultFeedbackLimit is the change of a link's or the GPUs' load that is taken
// to matter to others: at a load of 0.7 it changes a queue by some sixth.
const DefaultFeedbackLimit = 0.05

// FeedbackOf compares the loads of what was decided with those of to, path by
// decision. capacity gives bytes/s by link, seconds the length of the window, and
// workers how many there are (0: not known).
func FeedbackOf(ds []*schema.Decision, to []schema.Path, capacity map[string]float64, seconds float64, workers int, limit float64) Feedback {
	out := Feedback{Limit: limit, GPUSeconds: float64(workers) * seconds}
	links := map[string]*LinkChange{}
	book := func(c *schema.Candidate, bytes func(*LinkChange) *float64, gpu *float64) {
		*gpu += orNone(c.Recompute) + orNone(c.Restore)
		if link := bottleneck(c); link != "" && c.Bytes > 0 {
			if links[link] == nil {
				links[link] = &LinkChange{Link: link, Capacity: capacity[link]}
			}
			*bytes(links[link]) += float64(c.Bytes) / seconds
		}
	}
	for i, d := range ds {
		by := sample.Alternatives(d)
		if int(to[i]) >= len(by) || by[to[i]] < 0 || by[d.Path] < 0 {
			continue
		}
		book(&d.Candidates[by[d.Path]], func(l *LinkChange) *float64 { return &l.Logged }, &out.GPULogged)
		book(&d.Candidates[by[to[i]]], func(l *LinkChange) *float64 { return &l.Policy }, &out.GPUPolicy)
	}
	for _, l := range links {
		l.Change = relative(l.Policy-l.Logged, l.Capacity, math.Max(l.Policy, l.Logged))
		out.Links = append(out.Links, *l)
	}
	sort.Slice(out.Links, func(i, j int) bool {
		a, b := out.Links[i], out.Links[j]
		return math.Abs(a.Change) > math.Abs(b.Change) || (math.Abs(a.Change) == math.Abs(b.Change) && a.Link < b.Link)
	})
	out.GPUChange = relative(out.GPUPolicy-out.GPULogged, out.GPUSeconds, math.Max(out.GPUPolicy, out.GPULogged))
	out.decide()
	return out
}

func relative(change, of, without float64) float64 {
	if of <= 0 {
		of = without
	}
	if of <= 0 {
		return 0
	}
	return change / of
}

func (f *Feedback) decide() {
	said := func(what string, change float64, known bool) string {
		of := "its capacity"
		if !known {
			of = "its larger load, for its capacity is not known"
		}
		return fmt.Sprintf("%s by %+.1f %% of %s (limit %.1f %%)", what, 100*change, of, 100*f.Limit)
	}
	for _, l := range f.Links {
		if math.Abs(l.Change) > f.Limit {
			f.Carries, f.Why = true, "the policy changes the load of link "+said(l.Link, l.Change, l.Capacity > 0)+": requests wait for others' transfers otherwise than they did"
			return
		}
	}
	if math.Abs(f.GPUChange) > f.Limit {
		f.Carries, f.Why = true, "the policy changes the load of the GPUs "+said("", f.GPUChange, f.GPUSeconds > 0)[1:]+": requests queue otherwise than they did"
		return
	}
	f.Why = fmt.Sprintf("the policy changes no link's and no GPU's load by more than %.1f %%: requests wait for others as they did", 100*f.Limit)
}
