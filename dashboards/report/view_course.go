package report

import "math"

// course is one path of one request as a row: what no stage explains is its
// remainder.
type course struct {
	Stages
	has [4]bool // which of the stages before the remainder are known
}

// named makes a timeline a course. Without a TTFT it has no remainder: NaN.
func named(t *Timeline, name string) course {
	c := course{Stages: Stages{Path: name, TTFT: math.NaN()}}
	sum := 0.0
	for i, n := range []Number{t.GPUQueue, t.ExposedStall, t.Restore, t.Prefill} {
		if c.has[i] = n.Known(); c.has[i] {
			*[]*float64{&c.GPUQueue, &c.ExposedStall, &c.Restore, &c.Prefill}[i] = n.V
			sum += n.V
		}
	}
	if t.TTFT.Known() {
		c.TTFT, c.Remainder = t.TTFT.V, t.TTFT.V-sum
		if math.Abs(c.Remainder) < math.Max(dust, 1e-6*math.Abs(sum)) { // what float32 columns can not keep
			c.Remainder = 0
		}
	}
	return c
}

func courseScale(rows []course) scale {
	all := make([]Stages, len(rows))
	for i := range rows {
		all[i] = rows[i].Stages
	}
	return stageScale(all)
}

// falls draws courses on one scale. A stage that is not known is a dash, not
// nothing, and what has no TTFT is unknown.
func falls(s scale, rows []course) (b bars) {
	b.Ticks = s.ticks(seconds)
	for i := range rows {
		row := newBar(s, &rows[i].Stages)
		row.Desc = ""
		for k, text := range row.Texts {
			if k < len(rows[i].has) && !rows[i].has[k] {
				row.Texts[k] = "–"
				continue
			}
			row.Desc = listed(row.Desc, stageNames[k].Name+" "+text)
		}
		if row.Desc += ": TTFT " + row.TTFT; !finite(rows[i].TTFT) {
			row.TTFT, row.Desc, row.Parts, row.Sum = unknownWord, "TTFT and remainder are not known", nil, "not known"
			row.Texts[len(row.Texts)-1] = unknownWord
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}
