package query

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/schema"
)

// scope is what a verdict is of. Size is the number of a bucket as text; an
// empty field means all.
type scope struct{ Policy, Model, Tier, Link, Size, From, To string }

// said is a row of verdicts.
type said struct {
	scope
	Estimator, Verdict, Reason string
	Estimate, Lo, Hi, ParetoK  *float64
	Level, ESS, MaxWeight      float64
	Unknown                    float64
	N, Legs                    uint64
	Over                       Window    // the decisions that it is of
	At                         time.Time // when it was said
}

// latest gives the last word on each scope and estimator among the verdicts
// whose window overlaps w, of this window's requests.
func latest(ctx context.Context, conn driver.Conn, w Window) (out []said, err error) {
	from, until := w.bounds()
	sql := `SELECT policy, model, tier, link, size_bucket, toString(pair_from), toString(pair_to), lower(estimator) AS method,
	toString(verdict), reason, estimate, lo, hi, pareto_k, level, ess, max_weight, unknown_share, n, legs, window_from, window_until, at
FROM verdicts FINAL
WHERE target = 'window' AND window_from < toDateTime(` + until + `, 'UTC') AND window_until > toDateTime(` + from + `, 'UTC')` + w.only() + `
ORDER BY at DESC, window_until DESC
LIMIT 1 BY policy, model, tier, link, size_bucket, pair_from, pair_to, method`
	err = rows(ctx, conn, "verdicts", sql, func(r driver.Rows) error {
		var s said
		err := r.Scan(&s.Policy, &s.Model, &s.Tier, &s.Link, &s.Size, &s.From, &s.To, &s.Estimator,
			&s.Verdict, &s.Reason, &s.Estimate, &s.Lo, &s.Hi, &s.ParetoK, &s.Level, &s.ESS, &s.MaxWeight, &s.Unknown, &s.N, &s.Legs, &s.Over.From, &s.Over.Until, &s.At)
		out = append(out, s)
		return err
	})
	return out, err
}

// headlines are an estimator's words on all requests of a link, or of all links,
// by policy only where none is of all policies.
func headlines(all []said, estimator, model string) (out []*said) {
	var byPolicy []*said
	for i := range all {
		s := &all[i]
		switch {
		case s.Estimator != estimator || s.Model != model || s.Tier != "" || s.Size != "":
		case s.Policy != "":
			byPolicy = append(byPolicy, s)
		default:
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return byPolicy
	}
	return out
}

// interval is a row's estimate; nil where it has no bounds.
func (s *said) interval() *report.Interval {
	mid, low, high := opt(s.Estimate), opt(s.Lo), opt(s.Hi)
	if !mid.OK || !low.OK || !high.OK || s.Level <= 0 {
		return nil
	}
	return &report.Interval{Value: mid.V, Low: low.V, High: high.V, Level: s.Level, N: int64(s.Legs)}
}

// point is a row's interval or, where it has no bounds, its estimate alone.
func (s *said) point() *report.Interval {
	if i := s.interval(); i != nil || !opt(s.Estimate).OK {
		return i
	}
	return &report.Interval{Value: *s.Estimate, N: int64(s.Legs)}
}

var states = map[string]report.State{"helps": report.Helping, "hurts": report.Hurting, "even": report.Even}

// Verdicts gives the last verdict on each link and on all of them, hurting ones
// first. Effects on others are predictions: the mean externality of the
// alternative less that of the choice, over the requests of the scope.
func Verdicts(ctx context.Context, conn driver.Conn, w Window) ([]report.Verdict, error) {
	all, err := latest(ctx, conn, w)
	if err != nil {
		return nil, err
	}
	others := map[Window][]external{} // by the window of the verdict, so that both are of the same requests
	out := make([]report.Verdict, 0, len(all))
	for _, s := range headlines(all, "aipw", w.Model) {
		if _, read := others[s.Over]; !read {
			if others[s.Over], err = externalities(ctx, conn, s.Over); err != nil {
				return nil, err
			}
		}
		out = append(out, newVerdict(s, others[s.Over]))
	}
	order := map[report.State]int{report.Hurting: 0, report.Unknown: 1, report.Even: 2, report.Helping: 3}
	slices.SortStableFunc(out, func(a, b report.Verdict) int {
		return cmp.Or(cmp.Compare(headline(a), headline(b)), cmp.Compare(order[a.Shown()], order[b.Shown()]),
			cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Link, b.Link), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Alternative, b.Alternative))
	})
	return out, nil
}

// headline puts fetched against recomputed before all other pairs.
func headline(v report.Verdict) int {
	if v.Path == schema.PathFetch.String() && v.Alternative == schema.PathRecompute.String() {
		return 0
	}
	return 1
}

func newVerdict(s *said, others []external) report.Verdict {
	v := report.Verdict{Link: s.Link, Path: s.From, Alternative: s.To, Policy: s.Policy, Model: s.Model, Tier: s.Tier, Size: sizeName(s.Size),
		State: report.Unknown, Own: s.interval(), Requests: int64(s.N), Replays: int64(s.Legs), Reason: s.Reason,
		At: s.At, From: s.Over.From, To: s.Over.Until}
	if state, ok := states[s.Verdict]; ok && v.Own != nil {
		v.State = state
	}
	if v.State == report.Unknown && v.Own != nil { // the table's reason repeats the estimate
		v.Reason = report.CoversZero
	}
	if n, mean := meanOf(others, s.scope); n > 0 {
		v.Others = &report.Interval{Value: mean, N: n}
		if v.Own != nil {
			v.Net = &report.Interval{Value: v.Own.Value + mean}
		}
	}
	return v
}

// sizeName names the bucket whose number is s.
func sizeName(s string) string {
	i, err := strconv.Atoi(s)
	switch {
	case err != nil:
		return s
	case i < 0:
		return "unknown"
	}
	return schema.SizeBucketName(i)
}

// external is predicted delay of others, summed over the requests of a scope
// that says everything.
type external struct {
	scope
	N   uint64
	Sum float64 // of the alternative less of the choice, seconds
}

func externalities(ctx context.Context, conn driver.Conn, w Window) (out []external, err error) {
	sql := `SELECT policy, model, toString(tier) AS t, link, toString(` + sizeBucket + `) AS size, toString(path) AS chosen_path, toString(alt_path) AS alternative,
	count(), sum(toFloat64(ifNull(alt_externality, 0)) - ifNull(externality, 0))
FROM requests FINAL WHERE ` + w.where("minute") + ` AND alt_ttft IS NOT NULL AND (alt_externality IS NOT NULL OR externality IS NOT NULL)
GROUP BY policy, model, t, link, size, chosen_path, alternative`
	err = rows(ctx, conn, "effects on others", sql, func(r driver.Rows) error {
		var e external
		err := r.Scan(&e.Policy, &e.Model, &e.Tier, &e.Link, &e.Size, &e.From, &e.To, &e.N, &e.Sum)
		out = append(out, e)
		return err
	})
	return out, err
}

// sizeBucket is schema.SizeBucket of tokens_prefix in SQL; -1 where it is NULL.
var sizeBucket = func() string {
	var b strings.Builder
	b.WriteString("multiIf(tokens_prefix IS NULL, -1")
	for i, bound := range schema.SizeBuckets {
		b.WriteString(", tokens_prefix <= " + strconv.FormatInt(bound, 10) + ", " + strconv.Itoa(i))
	}
	return b.String() + ", " + strconv.Itoa(len(schema.SizeBuckets)) + ")"
}()

// meanOf is the mean over what s covers, seconds a request.
func meanOf(all []external, s scope) (n int64, mean float64) {
	sum := 0.0
	for _, e := range all {
		if s.covers(e.scope) {
			n, sum = n+int64(e.N), sum+e.Sum
		}
	}
	return n, sum / float64(max(1, n))
}

func (s scope) covers(e scope) bool {
	in := func(want, have string) bool { return want == "" || want == have }
	return s.From == e.From && s.To == e.To && in(s.Policy, e.Policy) && in(s.Model, e.Model) &&
		in(s.Tier, e.Tier) && in(s.Link, e.Link) && in(s.Size, e.Size)
}

// methods names the estimators for people, the one that verdicts use first.
var methods = []struct{ key, name string }{{"aipw", "AIPW"}, {"snipw", "SNIPW"}, {"ipw", "IPW"}, {"direct", "direct"}, {"naive", "naive"}}

// Estimates gives every estimator's last answer for each ordered pair and link,
// without the truth, which is in no table: set Truth, and Requests to what it is
// the mean of.
func Estimates(ctx context.Context, conn driver.Conn, w Window) ([]report.Truth, error) {
	all, err := latest(ctx, conn, w)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b said) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	var out []report.Truth
	for _, m := range methods {
		for _, s := range headlines(all, m.key, w.Model) {
			t := find(&out, s)
			t.Methods = append(t.Methods, report.Method{Name: m.name, Estimate: s.point(), Reason: s.Reason})
		}
	}
	return out, nil
}

func find(all *[]report.Truth, s *said) *report.Truth {
	for i := range *all {
		if t := &(*all)[i]; t.Link == linkOf(s) && t.Path == s.From && t.Alternative == s.To {
			return t
		}
	}
	*all = append(*all, report.Truth{Path: s.From, Alternative: s.To, Link: linkOf(s), Requests: int64(s.N)})
	return &(*all)[len(*all)-1]
}

// linkOf is the link, and the policy where the word is of one.
func linkOf(s *said) string {
	if s.Policy == "" {
		return s.Link
	}
	return s.Link + " (policy " + s.Policy + ")"
}
