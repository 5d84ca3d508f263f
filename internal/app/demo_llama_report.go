package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/live"
)

// LiveResult is what a demo on real engines came to.
type LiveResult struct {
	Report  string // file
	data    report.Data
	ladder  []live.Rung
	links   []live.WorkerConfig
	fitted  *Calibrated
	replays replay.Stats
}

// liveReport reads back what the tables hold, and writes the page.
func (d *liveDemo) liveReport(ctx context.Context) (*LiveResult, error) {
	d.note("report", 0, 1)
	if err := d.stages.load.Flush(ctx); err != nil {
		return nil, err
	}
	data, err := query.Data(ctx, d.backend.Conn, query.Window{From: d.window.From, Until: d.window.Until.Add(time.Second)})
	if err != nil {
		return nil, err
	}
	data.Title = "kvwhatif demo: llama.cpp servers on this machine, measured"
	d.addCalibration(&data.Calibration)
	if err := d.coverLive(ctx, &data.Coverage); err != nil {
		return nil, err
	}
	m := &data.Measured
	m.Version, m.Command, m.Machine = Version, fmt.Sprintf("kvwhatif demo --engine %s --seed %d", EngineLlama, d.Seed), machine()
	m.Generated, m.Wall = time.Now().UTC(), time.Since(d.began).Seconds()
	out := &LiveResult{Report: d.Report, data: data, ladder: d.ladder, links: d.links, fitted: d.fitted, replays: d.replays}
	out.data.Measured.Notes = append(out.data.Measured.Notes, out.crossings()...)
	if out.Report == "" {
		out.Report = d.dir.Join("report.html")
	}
	d.note("report", 1, 1)
	return out, writeReport(out.Report, out.data)
}

const liveStoredSQL = `SELECT count(), uniqExact(request_id) FROM requests FINAL WHERE startsWith(request_id, {run:String})`

// coverLive holds what was accepted against what the tables have of this run.
func (d *liveDemo) coverLive(ctx context.Context, c *report.Coverage) error {
	var rows, distinct uint64
	if err := d.backend.Conn.QueryRow(ctx, liveStoredSQL, named("run", d.run+"-")).Scan(&rows, &distinct); err != nil {
		return fmt.Errorf("count the stored requests: %w", err)
	}
	c.Accepted = report.Num(float64(len(d.parts)))
	c.Lost, c.Doubled = report.Num(float64(len(d.parts))-float64(distinct)), report.Num(float64(rows-distinct))
	for why, n := range d.replays.Dropped {
		c.Refusals = append(c.Refusals, report.Count{Reason: "replay: " + why, N: n})
	}
	return nil
}

// crossings says in two lines at which rate of a link fetching stops paying.
func (r *LiveResult) crossings() []string {
	longest := r.ladder[len(r.ladder)-1]
	middle := r.ladder[len(r.ladder)/2]
	return []string{
		fmt.Sprintf("Computing %s tokens took %.2f s, restoring their %s took %.0f ms: a lone fetch stops paying below %s.",
			humanize.Comma(int64(middle.Tokens)), middle.Prefill, humanize.Bytes(uint64(middle.Bytes)), 1e3*middle.Restore, rate(middle.Crossing())),
		fmt.Sprintf("At %s tokens, which took %.2f s, it stops paying below %s.",
			humanize.Comma(int64(longest.Tokens)), longest.Prefill, rate(longest.Crossing())),
	}
}

// rate writes bytes/s; a crossing of a restoration slower than computing is none.
func rate(v float64) string {
	if !(v > 0) {
		return "any rate: restoring took longer than computing"
	}
	return fmt.Sprintf("%.1f MB/s", v/1e6)
}

// Text is the verdict for a terminal, the ladder, the fit and the crossing.
func (r *LiveResult) Text() string {
	var b strings.Builder
	b.WriteString(report.Text(r.data))
	b.WriteString("\nMeasured before the traffic, from an empty context:\n")
	t := newTable("tokens", "computing", "state", "restoring", "fetching pays above")
	for _, g := range r.ladder {
		t.AppendRow([]any{g.Tokens, fmt.Sprintf("%.3f s", g.Prefill), humanize.Bytes(uint64(g.Bytes)),
			fmt.Sprintf("%.1f ms", 1e3*g.Restore), rate(g.Crossing())})
	}
	b.WriteString(t.Render() + "\n\n")
	b.WriteString(r.fitted.Text() + "\n")
	for _, l := range r.links {
		fmt.Fprintf(&b, "%s runs at %s. ", l.Link, rate(l.Rate))
	}
	s := r.replays
	fmt.Fprintf(&b, "%d legs ran of %d drawn, at %.0f %% of production's GPU time.\n", s.Executed, s.Drawn,
		100*s.Legs.GPUSeconds/max(1e-9, s.Production.GPUSeconds))
	b.WriteString(strings.Join(r.crossings(), "\n") + "\n")
	return b.String()
}

// MarshalJSON is everything that the report shows, where it is, and the ladder.
func (r *LiveResult) MarshalJSON() ([]byte, error) {
	type rung struct {
		Tokens   int     `json:"tokens"`
		Prefill  float64 `json:"prefill_seconds"`
		Bytes    int64   `json:"bytes"`
		Restore  float64 `json:"restore_seconds"`
		Crossing float64 `json:"crossing_bytes_per_second"`
	}
	type legs struct {
		Drawn    int64 `json:"drawn"`
		Executed int64 `json:"executed"`
	}
	rungs := make([]rung, len(r.ladder))
	for i, g := range r.ladder {
		rungs[i] = rung{g.Tokens, g.Prefill, g.Bytes, g.Restore, max(0, g.Crossing())}
	}
	return json.Marshal(struct {
		report.Data
		Report  string `json:"report"`
		Ladder  []rung `json:"ladder"`
		Replays legs   `json:"replays"`
	}{r.data, r.Report, rungs, legs{r.replays.Drawn, r.replays.Executed}})
}
