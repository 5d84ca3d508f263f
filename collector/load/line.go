package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/kvwhatif/kvwhatif/schema"
)

// Line is a part on one line for people, such as `kvwhatif tail` prints:
//
//	12:00:01.250 contract 9e3779b9 fetch on w1 from w2 (peer) over spine, 268 MB  ttft 412ms = gpu 10ms + stall 40ms + ...; else recompute 600ms: seems to help by 188ms
//
// What is not said is left out. Seconds are rounded to three digits.
func Line(p *schema.Part) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-8s %s", time.Unix(0, p.StartNanos).UTC().Format("15:04:05.000"), kindName(p.Kind), p.Trace.String()[:8])
	switch p.Kind {
	case schema.KindContract:
		placed(&b, &p.Decision)
		observed(&b, &p.Observed)
		otherwise(&b, p)
	case schema.KindEngine:
		value(&b, " ", p.Engine.Model)
		part(&b, "ttft", p.Engine.TTFT)
		part(&b, "queue", p.Engine.Queue)
		part(&b, "prefill", p.Engine.Prefill)
		tokens(&b, p.Engine.TokensPrompt, "prompt")
		tokens(&b, p.Engine.TokensCached, "cached")
	case schema.KindTransfer:
		t := &p.Transfer
		value(&b, " ", t.Operation)
		value(&b, " from ", t.Source)
		value(&b, " in ", t.Tier.String())
		value(&b, " over ", t.Link)
		size(&b, t.Bytes)
		part(&b, "queue", t.Queue)
		part(&b, "took", t.Duration)
	case schema.KindReplay:
		r := &p.Replay
		fmt.Fprintf(&b, " %s leg of %s: %s, drawn with %.3g", r.Leg, r.Of.String()[:8], r.Path, r.Inclusion)
		observed(&b, &p.Observed)
		part(&b, "predicted", r.ModelReplay)
	}
	return b.String()
}

func kindName(k schema.Kind) string {
	names := [...]string{"?", "contract", "engine", "transfer", "replay"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

func placed(b *strings.Builder, d *schema.Decision) {
	value(b, " ", d.Path.String())
	value(b, " on ", d.Worker)
	value(b, " from ", d.SourceWorker)
	if tier := d.SourceTier.String(); tier != "" {
		fmt.Fprintf(b, " (%s)", tier)
	}
	value(b, " over ", d.Link)
}

func observed(b *strings.Builder, o *schema.Observed) {
	size(b, o.Bytes)
	part(b, "ttft", o.TTFT)
	rest := o.Remainder()
	if !rest.OK {
		return
	}
	sep := " ="
	for _, s := range []struct {
		name  string
		value schema.Seconds
	}{{"gpu", o.GPUQueue}, {"stall", o.ExposedStall}, {"restore", o.Restore}, {"prefill", o.Prefill}, {"unexplained", rest}} {
		if s.value.OK {
			fmt.Fprintf(b, "%s %s %s", sep, s.name, duration(s.value.V))
			sep = " +"
		}
	}
}

// otherwise says what the alternative was predicted to take, and what the
// choice gained by that.
func otherwise(b *strings.Builder, p *schema.Part) {
	alt := p.Decision.Alternative()
	if alt < 0 {
		b.WriteString("; no alternative logged")
		return
	}
	c := &p.Decision.Candidates[alt]
	fmt.Fprintf(b, "; else %s %s", c.Path, duration(c.TTFT))
	if !p.Observed.TTFT.OK {
		return
	}
	list, chosen := p.Decision.Candidates, int(p.Decision.Chosen.V)
	spared, caused := imposed(list, alt, chosen), imposed(list, chosen, alt)
	gain := c.TTFT + spared.V - p.Observed.TTFT.V - caused.V
	if !spared.OK || !caused.OK {
		b.WriteString(": unknown which is better, for the delay of others was predicted for one of them only")
	} else if gain < 0 {
		fmt.Fprintf(b, ": seems to hurt by %s", duration(-gain))
	} else {
		fmt.Fprintf(b, ": seems to help by %s", duration(gain))
	}
}

func value(b *strings.Builder, before, v string) {
	if v != "" {
		b.WriteString(before + printable(v))
	}
}

// printable keeps control characters of what came from outside off a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}

func part(b *strings.Builder, name string, s schema.Seconds) {
	if s.OK {
		fmt.Fprintf(b, "  %s %s", name, duration(s.V))
	}
}

func tokens(b *strings.Builder, n schema.Count, name string) {
	if n.OK {
		fmt.Fprintf(b, ", %d tokens %s", n.V, name)
	}
}

func size(b *strings.Builder, n schema.Count) {
	if n.OK {
		b.WriteString(", " + humanize.Bytes(uint64(max(0, n.V))))
	}
}

// duration shows three digits of so many seconds.
func duration(s float64) string {
	switch {
	case s < 1e-6 && s > -1e-6: // below what clocks tell
		return "0ms"
	case s < 1 && s > -1:
		return fmt.Sprintf("%.3gms", s*1e3)
	default:
		return fmt.Sprintf("%.3gs", s)
	}
}
