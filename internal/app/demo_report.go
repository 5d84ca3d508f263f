package app

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay/estimate"
	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/replay/sample"
	"github.com/kvwhatif/kvwhatif/schema"
)

// DemoResult is what a demo came to.
type DemoResult struct {
	Report string // file
	data   report.Data
}

// Text is the verdict for a terminal.
func (r *DemoResult) Text() string { return report.Text(r.data) }

// MarshalJSON is everything that the report shows, and where it is.
func (r *DemoResult) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		report.Data
		Report string `json:"report"`
	}{r.data, r.Report})
}

// armsLevel is the coverage of the arms' intervals.
const armsLevel = 0.95

// report reads back what the tables hold, adds what only the demo knows, and
// writes the page.
func (d *demo) report(ctx context.Context) (*DemoResult, error) {
	d.note("report", 0, 1)
	if err := d.stages.load.Flush(ctx); err != nil {
		return nil, err
	}
	from, until := d.window()
	data, err := query.Data(ctx, d.backend.Conn, query.Window{From: from, Until: until})
	if err != nil {
		return nil, err
	}
	truths := d.truths()
	for i := range data.Truths {
		t := &data.Truths[i]
		if found, ok := truths[pairKey{t.Link, t.Path, t.Alternative}]; ok {
			t.Truth, t.Requests = report.Num(found.sum/float64(found.n)), int64(found.n)
		}
	}
	data.Truths = append(data.Truths, d.externalTruths()...)
	if err := d.writeTruth(truths); err != nil {
		return nil, err
	}
	data.Title, data.Simulated = "kvwhatif demo: the Mooncake conversation trace on a calm and on a busy link", true
	data.Arms = d.armRows()
	d.addCalibration(&data.Calibration)
	if err := d.addCoverage(ctx, &data.Coverage); err != nil {
		return nil, err
	}
	data.Coverage.Legs = d.legs()
	d.addMeasured(&data.Measured)
	path := d.Report
	if path == "" {
		path = d.dir.Join("report.html")
	}
	d.note("report", 1, 1)
	return &DemoResult{Report: path, data: data}, writeReport(path, data)
}

// writeReport writes the page at path.
func writeReport(path string, data report.Data) error {
	var page strings.Builder
	if err := report.Render(&page, data); err != nil {
		return fmt.Errorf("draw the report: %w", err)
	}
	return writeFileAtomic(path, []byte(page.String()), 0o644)
}

// window is that of the default policy's traffic, on both links.
func (d *demo) window() (from, until time.Time) {
	from, until = d.mains[0].window.From, d.mains[0].window.Until
	for _, m := range d.mains[1:] {
		if m.window.From.Before(from) {
			from = m.window.From
		}
		if m.window.Until.After(until) {
			until = m.window.Until
		}
	}
	return from, until
}

// pairKey is an ordered pair of paths on a link.
type pairKey struct{ link, path, alternative string }

type truthSum struct {
	sum float64 // seconds
	n   int
}

// truths is the mean of what each alternative would have taken less what the choice
// took, by pair and link, over the decisions that the verdicts are of.
func (d *demo) truths() map[pairKey]*truthSum {
	out := map[pairKey]*truthSum{}
	for _, m := range d.mains {
		for i := range m.truth {
			o := m.traffic.outcome(m.truth[i].Index)
			if at := m.traffic.instant(o.At); at.Before(m.window.From) || !at.Before(m.window.Until) {
				continue
			}
			m.addTruth(out, o, &m.truth[i])
		}
	}
	return out
}

func (m *mainRun) addTruth(out map[pairKey]*truthSum, o *fleet.Outcome, t *fleet.Truth) {
	for path, candidate := range sample.Alternatives(&o.Decision) {
		b := schema.Path(path)
		if candidate < 0 || b == o.Decision.Path || b == schema.PathNone {
			continue
		}
		key := pairKey{m.link, o.Decision.Path.String(), b.String()}
		if out[key] == nil {
			out[key] = &truthSum{}
		}
		out[key].n++
		out[key].sum += t.TTFT[candidate] - t.TTFT[t.Chosen]
	}
}

// externalTruths is what fetching did to others, by the truth and as it was
// predicted: per fetched request, the delay of all others had it been recomputed,
// less the delay as it was.
func (d *demo) externalTruths() []report.Truth {
	var out []report.Truth
	for _, m := range d.mains {
		var truth, predicted float64
		n := 0
		for i := range m.truth {
			t, o := &m.truth[i], m.traffic.outcome(m.truth[i].Index)
			b := sample.Alternatives(&o.Decision)[schema.PathRecompute]
			if o.Decision.Path != schema.PathFetch || b < 0 || t.External == nil {
				continue
			}
			n++
			truth += t.External[b] - t.External[t.Chosen]
			predicted += o.Decision.Candidates[b].Externality - o.Decision.Candidates[t.Chosen].Externality
		}
		if n == 0 {
			continue
		}
		out = append(out, report.Truth{
			Path: "fetch", Alternative: "recompute", Link: m.link, Others: true,
			Truth: report.Num(truth / float64(n)), Requests: int64(n),
			Methods: []report.Method{{Name: "as predicted at the decision", Estimate: &report.Interval{Value: predicted / float64(n), N: int64(n)}}},
		})
	}
	return out
}

// outcome is that of the request of an index.
func (t *traffic) outcome(index int) *fleet.Outcome {
	if t.byIndex == nil {
		t.byIndex = make([]int32, len(t.requests))
		for i := range t.outcomes {
			t.byIndex[t.outcomes[i].Index] = int32(i)
		}
	}
	return &t.outcomes[t.byIndex[index]]
}

// writeTruth keeps the simulator's truth in a file of its own, which neither a fit
// nor an estimate reads.
func (d *demo) writeTruth(truths map[pairKey]*truthSum) error {
	type line struct {
		Link        string  `json:"link"`
		Path        string  `json:"path"`
		Alternative string  `json:"alternative"`
		Requests    int     `json:"requests"`
		Seconds     float64 `json:"benefit_seconds"`
	}
	var lines []line
	for k, v := range truths {
		lines = append(lines, line{k.link, k.path, k.alternative, v.n, v.sum / float64(v.n)})
	}
	raw, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the truth: %w", err)
	}
	return writeFileAtomic(d.dir.Join("truth.json"), append(raw, '\n'), 0o644)
}

func (d *demo) armRows() []report.Arm {
	var out []report.Arm
	for i := range d.arms {
		r := &d.arms[i]
		row := report.Arm{
			Policy: r.name, Note: r.note, Link: r.link, Default: r.decide == PolicyFetchAll && !r.aa, AA: r.aa,
			Requests: int64(len(r.ttft)), Runs: int64(len(r.mean)), Mean: report.Num(mean(r.mean)),
			P50: report.Num(quantile(r.ttft, 0.5)), P95: report.Num(quantile(r.ttft, 0.95)), P99: report.Num(quantile(r.ttft, 0.99)),
		}
		if !row.Default {
			row.Gain, row.Reason = interval(r.gain), r.gain.Why
		}
		out = append(out, row)
	}
	return out
}

// mean of values; NaN of none.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func interval(g estimate.Difference) *report.Interval {
	if g.Why != "" || math.IsNaN(g.Mean) {
		return nil
	}
	return &report.Interval{Value: g.Mean, Low: g.Lo, High: g.Hi, Level: armsLevel, N: int64(g.N)}
}

func (d *demo) addCalibration(c *report.Calibration) {
	c.Outcome, c.Reasons = "refused", []string{d.fitted.Reason}
	if d.fitted.Published {
		c.Outcome = "published"
	}
	for _, s := range d.fitted.Skipped {
		what := s.Term
		if s.Key != "" {
			what += " of " + s.Key
		}
		c.Reasons = append(c.Reasons, fmt.Sprintf("%s was not fitted: %s", what, s.Reason))
	}
	for _, s := range d.fitted.Gate.Slices {
		c.Challenges = append(c.Challenges, report.Contest{
			Slice: s.Slice.String(), N: int64(s.N), Champion: number(s.ChampionError), Challenger: number(s.ChallengerError),
			Passed: s.Outcome.Passed(), Outcome: string(s.Outcome),
		})
	}
}

func (d *demo) addMeasured(m *report.Measured) {
	m.Version, m.Command, m.Machine = Version, fmt.Sprintf("kvwhatif demo --seed %d", d.Seed), machine()
	m.Generated, m.Wall = time.Now().UTC(), time.Since(d.began).Seconds()
	for _, r := range d.mains {
		load := r.traffic.summary()
		m.Notes = append(m.Notes, fmt.Sprintf("link %s: requests: %s; fetching every prefix would take %.0f %% of the link; GPUs were busy %.0f %% of the time; replay legs: %s, at %.1f %% of production's GPU time",
			r.link, humanize.Comma(int64(load.Requests)), 100*load.Eligible, 100*load.GPU, humanize.Comma(int64(r.replays.Executed)), 100*r.replays.Legs.GPUSeconds/max(1e-9, r.replays.Production.GPUSeconds)))
	}
	m.Notes = append(m.Notes, "prefill and transfer times come from a published ladder of measurements with noise, not from the formula that is fitted; the rest of the fleet is simulated")
}
