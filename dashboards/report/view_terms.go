package report

// termView is one fitted law.
type termView struct {
	Name, Form, N, Error, Floor, Box string
	Values                           []valueRow
	Residuals                        residualPlot
}

type valueRow struct{ Name, Value, Unit string }

type residualPlot struct {
	Drawn                     bool
	Low, Left, Mid, Width, Up string
	Zero                      string
	Ticks                     []tick
	Text                      string
}

func newTerms(all []Term) (out []termView) {
	for i := range all {
		t := &all[i]
		v := termView{Name: t.Law + " of " + orUnlabelled(t.Of), Form: orUnlabelled(t.Form), N: plural(t.N, "point"),
			Error: percent(t.Error), Floor: percent(t.Floor), Box: validity(t), Residuals: newResiduals(t.Residuals)}
		for _, x := range t.Values {
			v.Values = append(v.Values, newValueRow(x))
		}
		out = append(out, v)
	}
	return out
}

func newValueRow(x Value) valueRow {
	r := valueRow{Name: x.Name, Unit: x.Unit, Value: unknownWord}
	if !x.Value.Known() {
		return r
	}
	r.Value = coefficient(x.Value.V, x.Unit)
	if x.StandardError.Known() {
		r.Value += " ± " + coefficient(x.StandardError.V, x.Unit)
	} else {
		r.Value += ", not fitted"
	}
	if x.Unit == "bytes/s" {
		r.Unit = ""
	}
	return r
}

// validity says what the fit saw; beyond it the coefficient is not used.
func validity(t *Term) string {
	s := ""
	add := func(text string) {
		if s != "" {
			s += ", "
		}
		s += text
	}
	if t.MaxTokens.Known() && t.MaxTokens.V > 0 {
		add(trim(t.MaxTokens.V) + " tokens")
	}
	if t.MaxBytes.Known() && t.MaxBytes.V > 0 {
		add(bytesOf(t.MaxBytes))
	}
	if t.MaxConcurrent.Known() && t.MaxConcurrent.V > 0 {
		add(trim(t.MaxConcurrent.V) + " at once")
	}
	if s == "" {
		return unknownWord
	}
	return "up to " + s
}

func newResiduals(q [5]Number) (p residualPlot) {
	names := [5]string{"5 %", "25 %", "50 %", "75 %", "95 %"}
	var s scale
	for i, n := range q {
		if !n.Known() {
			return residualPlot{Text: "unknown"}
		}
		s.min, s.max = min(s.min, n.V), max(s.max, n.V)
		if i > 0 {
			p.Text += ", "
		}
		p.Text += names[i] + ": " + seconds(n.V)
	}
	if pad := 0.05 * (s.max - s.min); finite(pad) {
		s.min, s.max = s.min-pad, s.max+pad
	}
	at := func(i int) float64 { return s.at(q[i].V) }
	p.Drawn, p.Zero, p.Ticks = true, pct(s.at(0)), s.ticks(seconds)
	p.Low, p.Left, p.Mid, p.Up = pct(at(0)), pct(at(1)), pct(at(2)), pct(at(4))
	p.Width = pct(max(0, at(3)-at(1)))
	return p
}

type contestView struct{ Slice, N, Champion, Challenger, Result string }

func newContests(all []Contest) (out []contestView) {
	for _, c := range all {
		v := contestView{c.Slice, count(c.N), percent(c.Champion), percent(c.Challenger), "not better"}
		if c.Passed {
			v.Result = "better or equal"
		}
		out = append(out, v)
	}
	return out
}
