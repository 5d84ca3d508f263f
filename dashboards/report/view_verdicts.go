package report

// glance is one figure at the top.
type glance struct{ Kind, Figure, Text string }

// card is one verdict.
type card struct {
	Kind, Word, Scope, Say, Do, Age string
	Effects                         []effect
	Ticks                           []tick
}

// effect is one of own, others and net of a verdict.
type effect struct {
	Name, How, Text, Bounds string
	Mark                    mark
}

// verdictRows are verdicts in one line each, those that are unknown apart where
// they are more than two.
type verdictRows struct {
	Name         string
	Rows, Folded []verdictRow
}

type verdictRow struct{ Kind, Word, Where, Pair, Text, Bounds, Basis, Do string }

// maxTiles is how many headlines stand at the top.
const maxTiles = 4

// glances are the headlines, and how many requests there were.
func glances(d Data) []glance {
	out := make([]glance, 0, maxTiles+1)
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if !v.headline() || len(out) == maxTiles {
			continue
		}
		figure := unknownWord
		switch v.Shown() {
		case Helping, Hurting:
			figure = signed(v.Own.Value)
		case Even:
			figure = "even"
		}
		out = append(out, glance{string(v.Shown()), figure, short(v.where()) + ": fetching, against recomputing"})
	}
	return append(out, glance{"plain", count(d.Coverage.Requests), noun(d.Coverage.Requests, "request") + " in the window"})
}

// short cuts a name that a tile has no room for; the verdict below has all of it.
func short(s string) string {
	const room = 60
	if r := []rune(s); len(r) > room {
		return string(r[:room-1]) + "…"
	}
	return s
}

// tally counts verdicts by what may be shown of them: "12 comparisons: 2 hurting,
// 9 unknown, 1 helping.".
func tally(all []Verdict) string {
	if len(all) == 0 {
		return ""
	}
	n, s := map[State]int64{}, ""
	for i := range all {
		n[all[i].Shown()]++
	}
	for _, state := range []State{Hurting, Unknown, Even, Helping} {
		if n[state] > 0 {
			s = listed(s, count(n[state])+" "+string(state))
		}
	}
	return plural(int64(len(all)), "comparison") + " of paths by link: " + s + "."
}

// where names the scope inside a heading.
func (v *Verdict) where() string {
	s := "all links"
	if v.Link != "" {
		s = "link " + v.Link
	}
	return s + v.rest()
}

func (v *Verdict) pair() string {
	return orUnlabelled(v.Path) + " against " + orUnlabelled(v.Alternative)
}

func newVerdictRows(name string, all []*Verdict) verdictRows {
	out := verdictRows{Name: name}
	for _, v := range all {
		r := newVerdictRow(v)
		if v.Shown() == Unknown {
			out.Folded = append(out.Folded, r)
		} else {
			out.Rows = append(out.Rows, r)
		}
	}
	if len(out.Folded) <= 2 {
		out.Rows, out.Folded = append(out.Rows, out.Folded...), nil
	}
	return out
}

func newVerdictRow(v *Verdict) verdictRow {
	r := verdictRow{Kind: string(v.Shown()), Word: v.Word(), Where: v.where(), Pair: v.pair(), Text: unknownWord, Bounds: v.Why(), Basis: v.basis(), Do: v.Do()}
	if v.Own.Known() {
		r.Text = signed(v.Own.Value)
		r.Bounds = bounds(v.Own)
		if why := v.Why(); why != "" {
			r.Bounds += "; " + why
		}
	}
	if (v.Shown() == Unknown || v.headline()) && v.Action == "" {
		r.Do = "" // it is what the headlines say
	}
	return r
}

func newCard(v *Verdict) card {
	all := []*Interval{v.Own, v.Others}
	if v.Net.HasInterval() {
		all = append(all, v.Net)
	}
	s := symmetric(all...)
	how := "measured by replay"
	c := card{
		Kind: string(v.Shown()), Word: v.Word(),
		Scope: v.where() + ": " + v.pair(),
		Say:   v.say(), Do: v.Do(), Age: v.age(), Ticks: s.ticks(axisWord),
	}
	if v.Own.Known() || v.Others.Known() || v.Net.Known() {
		c.Effects = []effect{
			newEffect(s, v.Own, "On these requests", how),
			newEffect(s, v.Others, "On other requests", "by the model"),
		}
		if v.Net.HasInterval() {
			c.Effects = append(c.Effects, newEffect(s, v.Net, "Net", "sum of both"))
		}
	}
	for i := range c.Effects { // what is unknown is not drawn as if it were decided
		if v.Shown() == Unknown {
			c.Effects[i].Mark.Kind = "unknown"
		}
	}
	return c
}

func newEffect(s scale, i *Interval, name, how string) effect {
	e := effect{Name: name, How: how, Text: unknownWord, Bounds: "no estimate", Mark: markOf(s, i, name)}
	if i.Known() {
		e.Text, e.Bounds = signed(i.Value), bounds(i)
		if !i.HasInterval() {
			e.Bounds = "prediction, no interval"
			if i.N > 0 {
				e.Bounds += "; " + plural(i.N, "request")
			}
		}
	}
	return e
}

func orUnlabelled(s string) string {
	if s == "" {
		return "(not said)"
	}
	return s
}
