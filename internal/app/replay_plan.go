package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/replay"
	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// maxPreview bounds the decisions that a preview holds in memory.
const maxPreview = 100_000

// PlanPreview is what the replayer would do with the decisions that Kafka has.
type PlanPreview struct {
	preview   replay.Preview
	settings  ReplaySettings
	from      time.Time // of the oldest decision; zero where there is none
	until     time.Time
	truncated bool // there are more decisions than were read
	anySalt   bool // no salt was given: the draws are examples
}

// PreviewReplay reads the decisions of a time up to now from Kafka, without joining a
// group, and says what the settings' plan would run of them. since 0 reads all that
// Kafka has.
func PreviewReplay(ctx context.Context, s *Settings, since time.Duration) (*PlanPreview, error) {
	s, err := s.attached()
	if err != nil {
		return nil, err
	}
	out := &PlanPreview{settings: s.Replay}
	salt, err := s.Replay.salt()
	if err != nil {
		return nil, err
	}
	if salt == nil {
		out.anySalt, salt = true, make([]byte, 32)
		rand.Read(salt)
	}
	plan, err := s.Replay.plan(salt)
	if err != nil {
		return nil, err
	}
	b, err := OpenOutside(ctx, s, true, false)
	if err != nil {
		return nil, err
	}
	oldest := int64(0)
	if since > 0 {
		oldest = time.Now().Add(-since).UnixNano()
	}
	parts, err := out.decisions(ctx, b.Cluster, oldest)
	if err != nil {
		return nil, err
	}
	out.preview = replay.PreviewOf(plan, parts, s.Replay.Share)
	return out, nil
}

// decisions reads each partition from its oldest message to its end as it is now.
func (v *PlanPreview) decisions(ctx context.Context, c kafka.Cluster, oldest int64) (parts []*schema.Part, err error) {
	first, last, err := kafka.Offsets(ctx, c, schema.TopicParts)
	if err != nil {
		return nil, err
	}
	for _, partition := range slices.Sorted(maps.Keys(first)) {
		if parts, err = v.read(ctx, c, partition, first[partition], last[partition], oldest, parts); err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
	}
	return parts, nil
}

func (v *PlanPreview) read(ctx context.Context, c kafka.Cluster, partition int, from, until, oldest int64, into []*schema.Part) ([]*schema.Part, error) {
	if from >= until {
		return into, nil
	}
	r, err := kafka.NewPartitionReader(c, schema.TopicParts, partition, from)
	if err != nil {
		return into, err
	}
	defer r.Close()
	var decoder wire.Decoder
	for at := from; at < until; {
		m, err := r.Read(ctx)
		if err != nil {
			return into, err
		}
		at = m.Offset + 1
		for frame, err := range wire.Frames(m.Value) {
			p := new(schema.Part)
			if err != nil || decoder.Part(frame, p) != nil || p.Kind != schema.KindContract || p.StartNanos < oldest {
				continue
			}
			if len(into) == maxPreview {
				v.truncated = true
				return into, nil
			}
			v.widen(time.Unix(0, p.StartNanos).UTC())
			into = append(into, p)
		}
	}
	return into, nil
}

// widen has the range hold t.
func (v *PlanPreview) widen(t time.Time) {
	if v.from.IsZero() || t.Before(v.from) {
		v.from = t
	}
	if t.After(v.until) {
		v.until = t
	}
}

// Text is the preview for a terminal.
func (v *PlanPreview) Text() string {
	p := &v.preview
	var b strings.Builder
	if p.Decisions == 0 {
		return "Kafka has no decision in this range: nothing would run. See that spans arrive with `kvwhatif tail`.\n"
	}
	fmt.Fprintf(&b, "Plan %s on %d decisions from %s to %s:\n", p.Plan, p.Decisions, v.from.Format(time.RFC3339), v.until.Format(time.RFC3339))
	b.WriteString(v.strataTable() + "\n" + v.pairsTable() + "\n")
	for _, why := range slices.Sorted(maps.Keys(p.Ineligible)) {
		fmt.Fprintf(&b, "Can not be replayed: %d decisions: %s\n", p.Ineligible[why], why)
	}
	fmt.Fprintf(&b, "Would cost %s GPU-seconds and %s, as expected and predicted: %.2f %% and %.2f %% of production's own.\n",
		short(p.Legs.GPUSeconds), size(p.Legs.Bytes), 100*p.GPUShare(), 100*p.ByteShare())
	fmt.Fprintf(&b, "The budget (replay.share) is %.2f %% of each: %s\n", 100*v.settings.Share, v.within())
	if v.anySalt {
		b.WriteString("No replay salt was given: rates and costs hold, but the requests drawn are an example.\n")
	}
	if v.truncated {
		fmt.Fprintf(&b, "Kafka has more: the first %d decisions were read. Give a shorter --since for the newest.\n", maxPreview)
	}
	return b.String()
}

// strataTable is a row a stratum, those of most legs first.
func (v *PlanPreview) strataTable() string {
	t := newTable("stratum", "decisions", "π of the path not taken", "legs expected", "GPU-seconds", "bytes", "of the budget")
	strata := slices.Clone(v.preview.Strata)
	slices.SortStableFunc(strata, func(a, b replay.Expected) int { return cmp.Compare(b.Legs, a.Legs) })
	others, decisions, legs, cost := 0, 0, 0.0, execute.Cost{}
	for i, e := range strata {
		if i < maxStrata {
			t.AppendRow(table.Row{e.Stratum, e.Decisions, inclusions(e), short3(e.Legs), short3(e.Cost.GPUSeconds), size(e.Cost.Bytes), v.ofBudget(e.Cost)})
			continue
		}
		others, decisions, legs = others+1, decisions+e.Decisions, legs+e.Legs
		cost.GPUSeconds, cost.Bytes = cost.GPUSeconds+e.Cost.GPUSeconds, cost.Bytes+e.Cost.Bytes
	}
	if others > 0 {
		t.AppendRow(table.Row{fmt.Sprintf("%d others", others), decisions, "", short3(legs), short3(cost.GPUSeconds), size(cost.Bytes), v.ofBudget(cost)})
	}
	return t.Render()
}

// maxStrata is how many strata a terminal is shown; JSON has all.
const maxStrata = 25

func inclusions(e replay.Expected) string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(e.Inclusion)) {
		out = append(out, path+" "+short3(e.Inclusion[path]))
	}
	return strings.Join(out, ", ")
}

// short3 is a number to three digits.
func short3(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// ofBudget is the larger of the shares that a cost takes of what may be spent.
func (v *PlanPreview) ofBudget(c execute.Cost) string {
	return fmt.Sprintf("%.1f %%", 100*v.budgetShare(c))
}

func (v *PlanPreview) budgetShare(c execute.Cost) float64 {
	p := &v.preview.Production
	return max(shareOf(c.GPUSeconds, v.settings.Share*p.GPUSeconds), shareOf(c.Bytes, v.settings.Share*p.Bytes))
}

// pairsTable says how long each pair takes.
func (v *PlanPreview) pairsTable() string {
	t := newTable("chosen", "against", "decisions", "legs expected", "controls", "enough for a verdict")
	for _, p := range v.preview.Pairs {
		when := "not known: all decisions are of one instant"
		switch {
		case p.Never != "":
			when = "never: " + p.Never
		case p.Until > 0:
			when = "after " + p.Until.Round(time.Second).String()
		}
		t.AppendRow(table.Row{p.From.String(), p.To.String(), p.Decisions, short3(p.Legs), short3(p.Controls), when})
	}
	return t.Render()
}

// within says whether the budget holds what would be drawn.
func (v *PlanPreview) within() string {
	if share := max(v.preview.GPUShare(), v.preview.ByteShare()); share > v.settings.Share {
		return fmt.Sprintf("legs beyond it wait, and are dropped after the deadline. Lower --rate and --control, or raise --share to %.3f.", share)
	}
	return "it holds them."
}

// size writes bytes for people.
func size(bytes float64) string {
	if bytes <= 0 {
		return "0 B"
	}
	return humanize.IBytes(uint64(bytes))
}

type previewJSON struct {
	Plan       string         `json:"plan"`
	From       *time.Time     `json:"from"`
	Until      *time.Time     `json:"until"`
	Decisions  int            `json:"decisions"`
	Pairs      []pairJSON     `json:"pairs"`
	Ineligible map[string]int `json:"ineligible"`
	Strata     []stratumJSON  `json:"strata"`
	GPUSeconds float64        `json:"legs_gpu_seconds"`
	Bytes      float64        `json:"legs_bytes"`
	GPUShare   float64        `json:"gpu_share"`  // of production's GPU-seconds, 0 to 1
	ByteShare  float64        `json:"byte_share"` // likewise
	Budget     float64        `json:"budget_share"`
	Truncated  bool           `json:"truncated"`
	AnySalt    bool           `json:"example_draws"`
}

type stratumJSON struct {
	Stratum    string             `json:"stratum"`
	Decisions  int                `json:"decisions"`
	Rate       float64            `json:"rate"`
	Inclusion  map[string]float64 `json:"inclusion"`     // mean π of each path not taken
	Expected   float64            `json:"expected_legs"` // of both kinds
	Rejected   int                `json:"rejected_legs"` // that these draws give
	Control    int                `json:"control_legs"`
	GPUSeconds float64            `json:"gpu_seconds"` // expected
	Bytes      float64            `json:"bytes"`
	Budget     float64            `json:"share_of_budget"`
}

type pairJSON struct {
	From      string   `json:"chosen"`
	To        string   `json:"against"`
	Decisions int      `json:"decisions"`
	Legs      float64  `json:"expected_legs"`
	Controls  float64  `json:"expected_controls"`
	Seconds   *float64 `json:"seconds_until_enough"` // for a verdict; null: never, or not known
	Never     string   `json:"never,omitempty"`
}

// MarshalJSON is the preview for machines.
func (v *PlanPreview) MarshalJSON() ([]byte, error) {
	p := &v.preview
	out := previewJSON{
		Plan: p.Plan, Decisions: p.Decisions, Ineligible: p.Ineligible, Strata: []stratumJSON{}, Pairs: []pairJSON{},
		GPUSeconds: p.Legs.GPUSeconds, Bytes: p.Legs.Bytes, GPUShare: p.GPUShare(), ByteShare: p.ByteShare(),
		Budget: v.settings.Share, Truncated: v.truncated, AnySalt: v.anySalt,
	}
	if p.Decisions > 0 {
		out.From, out.Until = &v.from, &v.until
	}
	for _, e := range p.Strata {
		out.Strata = append(out.Strata, stratumJSON{
			Stratum: e.Stratum, Decisions: e.Decisions, Rate: e.Rate, Inclusion: e.Inclusion, Expected: e.Legs,
			Rejected: e.Rejected, Control: e.Control, GPUSeconds: e.Cost.GPUSeconds, Bytes: e.Cost.Bytes, Budget: v.budgetShare(e.Cost),
		})
	}
	for _, e := range p.Pairs {
		pair := pairJSON{From: e.From.String(), To: e.To.String(), Decisions: e.Decisions, Legs: e.Legs, Controls: e.Controls, Never: e.Never}
		if e.Until > 0 {
			seconds := e.Until.Seconds()
			pair.Seconds = &seconds
		}
		out.Pairs = append(out.Pairs, pair)
	}
	return json.Marshal(out)
}
