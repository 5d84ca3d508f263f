package fit

import (
	"fmt"
	"slices"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// prefillForm is a set of columns and the law that their values are.
type prefillForm struct {
	name    string
	chunk   float64
	columns [3]bool // c0, c1, c2
}

// prefillForms, simplest first. Chunks are those that engines are commonly run
// with.
var prefillForms = []prefillForm{
	{"c1·n", 0, [3]bool{false, true, false}},
	{"c0 + c1·n", 0, [3]bool{true, true, false}},
	{"c1·n + c2·n(m + n/2)", 0, [3]bool{false, true, true}},
	{"c0 + c1·n + c2·n(m + n/2)", 0, [3]bool{true, true, true}},
	{"c0·⌈n/512⌉ + c1·n + c2·n(m + n/2)", 512, [3]bool{true, true, true}},
	{"c0·⌈n/1024⌉ + c1·n + c2·n(m + n/2)", 1024, [3]bool{true, true, true}},
	{"c0·⌈n/2048⌉ + c1·n + c2·n(m + n/2)", 2048, [3]bool{true, true, true}},
	{"c0·⌈n/4096⌉ + c1·n + c2·n(m + n/2)", 4096, [3]bool{true, true, true}},
	{"c0·⌈n/8192⌉ + c1·n + c2·n(m + n/2)", 8192, [3]bool{true, true, true}},
}

func (f prefillForm) row(o PrefillObs) []float64 {
	all := [3]float64{
		cost.Prefill{C0: 1, Chunk: f.chunk}.Seconds(o.Computed, o.Before),
		cost.Prefill{C1: 1}.Seconds(o.Computed, o.Before),
		cost.Prefill{C2: 1}.Seconds(o.Computed, o.Before),
	}
	row := make([]float64, 0, 3)
	for i, in := range f.columns {
		if in {
			row = append(row, all[i])
		}
	}
	return row
}

func (f prefillForm) law(l linear) cost.Prefill {
	v := spreadOut(l.values, f.columns[:])
	return cost.Prefill{C0: v[0], C1: v[1], C2: v[2], Chunk: f.chunk}
}

// Prefill fits the prefill law of one (model, GPU) to observations of it. The
// covariance is over c0, c1, c2, chunk; chunk is chosen, not fitted, and has none.
func Prefill(obs []PrefillObs) (cost.Prefill, schema.Quality, error) {
	obs = slices.DeleteFunc(slices.Clone(obs), func(o PrefillObs) bool {
		return !(o.Computed > 0) || !(o.Seconds > 0) || !(o.Before >= 0)
	})
	slices.SortStableFunc(obs, func(a, b PrefillObs) int { return compareInt(a.At, b.At) })
	y := make([]float64, len(obs))
	cells := make([]int64, len(obs))
	q := schema.Quality{N: int64(len(obs)), MaxConcurrent: 1}
	for i, o := range obs {
		y[i], cells[i] = o.Seconds, cell(o.Computed, o.Before)
		q.MaxTokens = max(q.MaxTokens, o.Computed+o.Before)
	}
	models := make([]linearModel, len(prefillForms))
	for m, form := range prefillForms {
		models[m] = linearModel{name: form.name, x: rowsOf(obs, form.row), y: y}
	}
	chosen, fitted, err := fitForms(models, y, cells, &q)
	if err != nil {
		return cost.Prefill{}, q, fmt.Errorf("prefill: %w", err)
	}
	form := prefillForms[chosen]
	q.Covariance = widen(fitted.covariance, append(form.columns[:], false))
	return form.law(fitted), q, nil
}
