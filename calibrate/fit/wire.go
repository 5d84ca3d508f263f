package fit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// wire is the parameters of the shared link: bend, log B, log(B1/B), γ. The order
// is that of the covariance.
type wire [4]float64

const (
	bendAt = iota
	logBAt
	logB1At
	gammaAt
)

func (w wire) law() cost.Transfer {
	return cost.Transfer{Bend: w[bendAt], Link: cost.Link{
		B: math.Exp(w[logBAt]), B1: w.b1(), Gamma: w[gammaAt],
	}}
}

// b1 is 0 where log(B1/B) is +Inf: no such limit.
func (w wire) b1() float64 {
	if math.IsInf(w[logB1At], 1) {
		return 0
	}
	return math.Exp(w[logBAt] + w[logB1At])
}

// clamp keeps bend in 0 to 0.5, γ in 0 to 10, b1 at most B.
func (w wire) clamp() wire {
	w[bendAt] = min(0.5, max(0, w[bendAt]))
	w[gammaAt] = min(10, max(0, w[gammaAt]))
	if !math.IsInf(w[logB1At], 1) {
		w[logB1At] = min(0, w[logB1At])
	}
	return w
}

// wireForm says which parameters are fitted, log B always.
type wireForm struct {
	name string
	free [4]bool
}

var logBendBytes = math.Log(cost.BendBytes)

// wireForms, simplest first.
var wireForms = []wireForm{
	{"B/c", [4]bool{logBAt: true}},
	{"min(b1, B/c)", [4]bool{logBAt: true, logB1At: true}},
	{"B/c(1 + γ(c−1))", [4]bool{logBAt: true, gammaAt: true}},
	{"min(b1, B/c(1 + γ(c−1)))", [4]bool{logBAt: true, logB1At: true, gammaAt: true}},
	{"B/c, bent", [4]bool{bendAt: true, logBAt: true}},
	{"min(b1, B/c), bent", [4]bool{bendAt: true, logBAt: true, logB1At: true}},
	{"B/c(1 + γ(c−1)), bent", [4]bool{bendAt: true, logBAt: true, gammaAt: true}},
	{"min(b1, B/c(1 + γ(c−1))), bent", [4]bool{true, true, true, true}},
}

// starts are where the search for γ and b1/B begins: the law has a kink, and the
// loss more than one valley.
var starts = []wire{
	{logB1At: math.Log(0.9), gammaAt: 0.02},
	{logB1At: math.Log(0.5), gammaAt: 0.1},
	{logB1At: math.Log(0.25), gammaAt: 0.3},
}

// fitWire chooses among wireForms and fits all of flows, which are in order of
// time.
func fitWire(flows []flow, q *schema.Quality) (wire, []float64, error) {
	y, cells := make([]float64, len(flows)), make([]int64, len(flows))
	for i, f := range flows {
		y[i], cells[i] = f.seconds, cell(f.bytes, 0)
	}
	var forms []wireForm
	var fits []wireFit
	var models []model
	for _, form := range wireForms {
		if !form.identified(flows) {
			continue
		}
		full, ok := form.search(flows, form.starts(fits))
		if !ok {
			continue
		}
		forms, fits = append(forms, form), append(fits, full)
		models = append(models, form.model(flows, full.at))
	}
	v, ok := crossValidate(y, models)
	if !ok {
		return wire{}, nil, fmt.Errorf("transfer: %d transfers identify no form", len(flows))
	}
	q.Form = forms[v.chosen].name
	describe(q, y, v.held, cells)
	fitted := fits[v.chosen]
	return fitted.at, fitted.covariance(), nil
}

// starts are where the search for form begins: where the fits of the simpler forms
// ended, and for the first with a kink the table.
func (f wireForm) starts(simpler []wireFit) []wire {
	if f.free[bendAt] && len(simpler) > 0 {
		best := simpler[0]
		for _, s := range simpler {
			if s.loss < best.loss {
				best = s
			}
		}
		return []wire{best.at}
	}
	if !f.free[logB1At] && !f.free[gammaAt] {
		return starts[:1]
	}
	return starts
}

// identified says that the data can tell form's parameters apart.
func (f wireForm) identified(flows []flow) bool {
	least, most := math.Inf(1), 0.0
	alone, shared := 0.0, 0.0
	for _, fl := range flows {
		least, most = min(least, fl.bytes), max(most, fl.bytes)
		for _, s := range fl.shares {
			if s.level == 1 {
				alone += s.seconds
			} else {
				shared += s.seconds
			}
		}
	}
	if f.free[bendAt] && most < 2*least {
		return false
	}
	return !(f.free[gammaAt] || f.free[logB1At]) || shared >= minSharing*(alone+shared)
}

// model fits in a fold from where the fit of all points ended.
func (f wireForm) model(flows []flow, from wire) model {
	return model{name: f.name, fit: func(train []int) (func(int) float64, bool) {
		fitted, ok := f.search(pick(flows, train), []wire{from})
		rates := ratesOf(fitted.at, maxLevel(flows))
		return func(i int) float64 {
			return flows[i].seconds * math.Exp(-flows[i].residual(fitted.at, rates))
		}, ok
	}}
}

// residual is log(∫ rate(c(t)) dt / bytes on the wire): how far the law is from
// moving exactly these bytes in the time that they took.
func (f *flow) residual(w wire, rates []float64) float64 {
	moved := 0.0
	for _, s := range f.shares {
		moved += s.seconds * rates[s.level]
	}
	return math.Log(moved) - f.logBytes + w[bendAt]*(f.logBytes-logBendBytes)
}

// ratesOf is the rate of each flow by level.
func ratesOf(w wire, levels int) []float64 {
	link := w.law().Link
	rates := make([]float64, levels+1)
	for level := 1; level <= levels; level++ {
		rates[level] = link.FlowRate(countOf(level))
	}
	return rates
}

func maxLevel(flows []flow) int {
	most := 1
	for _, f := range flows {
		for _, s := range f.shares {
			most = max(most, s.level)
		}
	}
	return most
}

// wireFit is where a search ended.
type wireFit struct {
	at      wire
	loss    float64
	normal  *mat.SymDense // of the free parameters
	columns []int
	sigma2  float64
}

func (f wireForm) search(flows []flow, from []wire) (best wireFit, ok bool) {
	best.loss = math.Inf(1)
	for _, start := range from {
		start = f.begin(flows, start)
		if got, fine := f.descend(flows, start); fine && got.loss < best.loss {
			best, ok = got, true
		}
	}
	return best, ok
}

// begin puts what is not free to its neutral value, and log B to where the median
// residual is 0.
func (f wireForm) begin(flows []flow, w wire) wire {
	if !f.free[bendAt] {
		w[bendAt] = 0
	}
	if !f.free[gammaAt] {
		w[gammaAt] = 0
	}
	if !f.free[logB1At] {
		w[logB1At] = math.Inf(1)
	} else if math.IsInf(w[logB1At], 1) {
		w[logB1At] = starts[0][logB1At]
	}
	if w[logBAt] == 0 {
		w[logBAt] = -median(residuals(flows, w))
	}
	return w
}

func median(v []float64) float64 {
	m, _ := medianOf(v)
	return m
}

func residuals(flows []flow, w wire) []float64 {
	rates := ratesOf(w, maxLevel(flows))
	out := make([]float64, len(flows))
	for i := range flows {
		out[i] = flows[i].residual(w, rates)
	}
	return out
}
