package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvwhatif/kvwhatif/replay/probe"
)

// Text is the probe for people.
func (p *Probed) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d transfers, %s over link %s\n\n", len(p.Observations), humanize.IBytes(uint64(p.Bytes)), p.Link)
	fmt.Fprintf(&b, "%10s %6s %4s  %-28s %-28s %s\n", "bytes", "flows", "n", "to the first byte", "first to last byte", "rate of all flows")
	for _, row := range p.rows() {
		fmt.Fprintf(&b, "%10s %6d %4d  %-28s %-28s %s/s\n", humanize.IBytes(uint64(row.bytes)), row.flows, len(row.wire),
			middle(row.first), middle(row.wire), humanize.IBytes(uint64(median(row.rates))))
	}
	b.WriteString("\n")
	if p.Fit == nil {
		fmt.Fprintf(&b, "no law: %s\n", p.Unfitted)
		return b.String()
	}
	fmt.Fprintf(&b, "law of tier %s, link %s, from %d transfers, with 95 %% intervals:\n", p.Tier, p.Link, p.Fit.Quality.N)
	rate := func(name, what string) {
		if i := p.Intervals[name]; i.Value > 0 {
			fmt.Fprintf(&b, "  %-6s %s/s (%s to %s)  %s\n", name, humanize.IBytes(uint64(i.Value)), humanize.IBytes(uint64(max(0, i.Low))), humanize.IBytes(uint64(max(0, i.High))), what)
		}
	}
	rate("b", "capacity, B")
	rate("b1", "most that one flow reaches, b1")
	if i := p.Intervals["gamma"]; i.Value != 0 {
		fmt.Fprintf(&b, "  %-6s %.4f (%.4f to %.4f)  lost to each other flow, γ\n", "gamma", i.Value, i.Low, i.High)
	}
	if i := p.Intervals["bend"]; i.Value != 0 {
		fmt.Fprintf(&b, "  %-6s %.4f (%.4f to %.4f)  the rate grows as bytes to this power\n", "bend", i.Value, i.Low, i.High)
	}
	i := p.Intervals["t0"]
	fmt.Fprintf(&b, "  %-6s %s (%s to %s)  fixed cost of a transfer, t0\n", "t0", milli(i.Value), milli(max(0, i.Low)), milli(i.High))
	if p.Cut != "" {
		fmt.Fprintf(&b, "\ncut short: %s\n", p.Cut)
	}
	return b.String()
}

type probeRow struct {
	bytes       int64
	flows       int
	first, wire []float64
	rates       []float64 // of each round, all flows together, bytes/s
}

func (p *Probed) rows() []*probeRow {
	type kind struct {
		bytes int64
		flows int
	}
	at, out, rounds := map[kind]*probeRow{}, []*probeRow{}, map[int][]probe.Observation{}
	for _, o := range p.Observations {
		key := kind{o.Bytes, o.Flows}
		if at[key] == nil {
			at[key] = &probeRow{bytes: o.Bytes, flows: o.Flows}
			out = append(out, at[key])
		}
		at[key].first, at[key].wire = append(at[key].first, o.FirstByte), append(at[key].wire, o.Seconds)
		rounds[o.Round] = append(rounds[o.Round], o)
	}
	for _, r := range rounds {
		row := at[kind{r[0].Bytes, r[0].Flows}]
		row.rates = append(row.rates, roundRate(r))
	}
	slices.SortFunc(out, func(a, b *probeRow) int { return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.flows, b.flows)) })
	return out
}

// roundRate is what all flows of a round moved by the time from the first byte of
// any to the last of any, bytes/s.
func roundRate(round []probe.Observation) float64 {
	var bytes int64
	first, last := round[0].StartNanos, round[0].StartNanos
	for _, o := range round {
		bytes += o.Bytes
		first, last = min(first, o.StartNanos), max(last, o.StartNanos+int64(o.Seconds*1e9))
	}
	return float64(bytes) / max(1e-9, float64(last-first)/1e9)
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// middle is a median and the range, for people.
func middle(x []float64) string {
	return fmt.Sprintf("%s (%s–%s)", milli(median(x)), milli(slices.Min(x)), milli(slices.Max(x)))
}

func milli(s float64) string { return fmt.Sprintf("%.3g ms", s*1e3) }
