package report

// termView is one fitted law.
type termView struct {
	Name, Form, N, Error, Floor, Box string
	Unused                           string // coefficients that the form has no use for
	Values                           []valueRow
	Residuals                        residualPlot
}

type valueRow struct{ Name, Value string }

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
			Error: of(percent(t.Error), t.ErrorOf), Floor: percent(t.Floor), Box: validity(t), Residuals: newResiduals(t.Residuals)}
		if t.Floor.Known() {
			v.Floor = of(v.Floor, t.ErrorOf)
		}
		for _, x := range t.Values {
			switch {
			case x.Value.Known() && x.Value.V == 0 && !x.StandardError.Known():
				v.Unused = listed(v.Unused, x.Name)
			default:
				v.Values = append(v.Values, newValueRow(x))
			}
		}
		out = append(out, v)
	}
	return out
}

func of(s, what string) string {
	if what == "" || s == unknownWord {
		return s
	}
	return s + " " + what
}

// listed adds an item to a list in words.
func listed(list, item string) string {
	if list == "" {
		return item
	}
	return list + ", " + item
}

func newValueRow(x Value) valueRow {
	r := valueRow{Name: x.Name, Value: unknownWord}
	if x.Value.Known() {
		r.Value = coefficient(x.Value.V, x.StandardError, x.Unit)
		if !x.StandardError.Known() {
			r.Value += ", not fitted"
		}
	}
	return r
}

// validity says what the fit saw; beyond it the coefficient is not used.
func validity(t *Term) string {
	s := ""
	add := func(text string) { s = listed(s, text) }
	if t.MaxTokens.Known() && t.MaxTokens.V > 0 {
		add(trim(t.MaxTokens.V) + " tokens")
	}
	if t.MaxBytes.Known() && t.MaxBytes.V > 0 {
		add(bytesOf(t.MaxBytes))
	}
	if t.Law == "transfer" && t.MaxConcurrent.Known() && t.MaxConcurrent.V > 0 {
		add(trim(t.MaxConcurrent.V) + " at once")
	}
	if s == "" {
		return "" // the law has no such bound
	}
	return "up to " + s
}

func newResiduals(q [5]Number) (p residualPlot) {
	names := [5]string{"5" + nb + "%", "25" + nb + "%", "50" + nb + "%", "75" + nb + "%", "95" + nb + "%"}
	s := scale{-5 * dust, 5 * dust}
	for i, n := range q {
		if !n.Known() {
			return residualPlot{Text: "unknown"}
		}
		s.min, s.max = min(s.min, n.V), max(s.max, n.V)
		if i > 0 {
			p.Text += ", "
		}
		p.Text += names[i] + ":" + nb + seconds(n.V)
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
