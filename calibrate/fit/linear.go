package fit

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/schema"
)

// linearModel is a form that is linear in its values, none of which may be
// negative unless signed says so.
type linearModel struct {
	name   string
	x      [][]float64
	y      []float64
	signed []bool  // nil: none
	floor  float64 // seconds, see fitLinear
}

func (m linearModel) fit(rows []int) (linear, bool) {
	if len(m.x) == 0 {
		return linear{}, false
	}
	x, y := make([][]float64, len(rows)), make([]float64, len(rows))
	for k, i := range rows {
		x[k], y[k] = m.x[i], m.y[i]
	}
	nonNegative := make([]bool, len(m.x[0]))
	for i := range nonNegative {
		nonNegative[i] = m.signed == nil || !m.signed[i]
	}
	return fitLinear(x, y, nonNegative, m.floor)
}

func (m linearModel) asModel() model {
	return model{name: m.name, fit: func(train []int) (func(int) float64, bool) {
		l, ok := m.fit(train)
		return func(i int) float64 { return l.predict(m.x[i]) }, ok
	}}
}

// fitForms chooses a form, fits it to every point, and fills the errors of q.
func fitForms(forms []linearModel, y []float64, cells []int64, q *schema.Quality) (int, linear, error) {
	models := make([]model, len(forms))
	for i, f := range forms {
		models[i] = f.asModel()
	}
	v, ok := crossValidate(y, models)
	if !ok {
		return 0, linear{}, fmt.Errorf("%d points identify no form: more sizes are needed", len(y))
	}
	form := forms[v.chosen]
	fitted, ok := form.fit(every(len(y)))
	if !ok {
		return 0, linear{}, fmt.Errorf("%d points do not identify %s", len(y), form.name)
	}
	q.Form = form.name
	describe(q, y, v.held, cells)
	return v.chosen, fitted, nil
}

// describe fills what held-out predictions say.
func describe(q *schema.Quality, y, held []float64, cells []int64) {
	q.Error = mean(relativeErrors(y, held))
	q.Floor = repeatNoise(cells, y, held)
	q.Residuals = residualQuantiles(y, held)
}

func every(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func rowsOf[T any](obs []T, row func(T) []float64) [][]float64 {
	out := make([][]float64, len(obs))
	for i, o := range obs {
		out[i] = row(o)
	}
	return out
}

// spreadOut puts values at the places that are in, and 0 elsewhere.
func spreadOut(values []float64, in []bool) []float64 {
	out, k := make([]float64, len(in)), 0
	for i := range in {
		if in[i] {
			out[i] = values[k]
			k++
		}
	}
	return out
}

// widen is spreadOut for a row-major covariance.
func widen(covariance []float64, in []bool) []float64 {
	places := indices(in)
	out := make([]float64, len(in)*len(in))
	for a, pa := range places {
		for b, pb := range places {
			out[pa*len(in)+pb] = covariance[a*len(places)+b]
		}
	}
	return out
}

func compareInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
