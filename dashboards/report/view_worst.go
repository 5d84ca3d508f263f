package report

// worstView is the table of worst decisions, and the first of them drawn.
type worstView struct {
	Rows  []worstRow
	More  []worstRow // beyond maxWorst
	First *waterfall
	Falls []waterfall // of those after the first
}

type worstRow struct {
	ID, Href, Trace, At, Path, Link, Observed, Predicted, Regret string
}

type waterfall struct {
	Trace, Regret string
	Bars          bars // taken, not taken
}

// maxWorst is how many decisions are shown at once.
const maxWorst = 10

func newWorst(all []Decision) (w worstView) {
	var times []Number
	for i := range all {
		times = append(times, all[i].Observed, all[i].Predicted, all[i].Regret)
	}
	word := oneUnit(times...)
	for i := range all {
		d := &all[i]
		w.Rows = append(w.Rows, worstRow{
			ID: d.ID, Trace: d.Trace, At: moment(d.At), Path: orUnlabelled(d.Path) + " → " + orUnlabelled(d.Alternative),
			Link: d.Link, Observed: word(d.Observed), Predicted: word(d.Predicted), Regret: word(d.Regret),
		})
	}
	if len(w.Rows) > maxWorst {
		w.Rows, w.More = w.Rows[:maxWorst], w.Rows[maxWorst:]
	}
	for i := range all[:min(len(all), maxWorst)] {
		d := &all[i]
		switch {
		case !d.Taken.TTFT.Known() && !d.NotTaken.TTFT.Known():
		case i == 0:
			w.First = newWaterfall(d)
		default:
			w.Falls = append(w.Falls, *newWaterfall(d))
		}
	}
	return w
}

func newWaterfall(d *Decision) *waterfall {
	rows := []course{
		named(&d.Taken, "Taken: "+orUnlabelled(d.Path)+" (observed)"),
		named(&d.NotTaken, "Not taken: "+orUnlabelled(d.Alternative)+" (predicted)"),
	}
	return &waterfall{Trace: d.Trace, Regret: number(d.Regret), Bars: falls(courseScale(rows), rows)}
}
