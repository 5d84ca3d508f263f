package report

import (
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// OfDocument is the calibration that a coefficient document says: its terms, its
// window and its revision. What became of the last run is for the caller to set.
func OfDocument(d schema.Document) Calibration {
	c := Calibration{Revision: d.Revision, Previous: d.Previous, Requests: d.Fit.N,
		FitFrom: unix(d.Fit.FromNanos), FitUntil: unix(d.Fit.UntilNanos)}
	for _, p := range d.Prefill {
		t := newTerm("prefill", p.Model+" on "+p.GPU, p.Law, p.Quality)
		if p.Law.Chunk == 0 { // a prefill is one chunk
			t.Values[0].Unit = "s a prefill"
		}
		c.Terms = append(c.Terms, t)
	}
	for _, t := range d.Transfer {
		c.Terms = append(c.Terms, newTerm("transfer", "tier "+t.Tier+" over link "+t.Link, t.Law, t.Quality))
	}
	for _, r := range d.Restore {
		c.Terms = append(c.Terms, newTerm("restore", r.Model+" from tier "+r.Tier, r.Law, r.Quality))
	}
	if d.Queue.Quality.N > 0 {
		law := struct {
			Bias  float64 `json:"bias"`
			Slope float64 `json:"slope"`
			Omega float64 `json:"omega"`
		}{d.Queue.Bias, d.Queue.Slope, d.Queue.Omega}
		c.Terms = append(c.Terms, newTerm("GPU queue", "every worker", law, d.Queue.Quality))
		c.Terms[len(c.Terms)-1].ErrorOf = "of the mean wait"
	}
	return c
}

func unix(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// newTerm lays a law's values, in the order of their JSON names, beside the
// diagonal of its covariance, which is in that order.
func newTerm(law, of string, values any, q schema.Quality) Term {
	t := Term{Law: law, Of: of, Form: q.Form, N: q.N, Values: flatten(reflect.ValueOf(values)),
		MaxTokens: positive(q.MaxTokens), MaxBytes: positive(q.MaxBytes), MaxConcurrent: positive(q.MaxConcurrent)}
	size := int(math.Round(math.Sqrt(float64(len(q.Covariance)))))
	for i := 0; i < size && i < len(t.Values) && size*size == len(q.Covariance); i++ {
		if v := q.Covariance[i*size+i]; v > 0 {
			t.Values[i].StandardError = Num(math.Sqrt(v))
		}
	}
	if q.N > 0 {
		t.Error, t.Floor = Num(q.Error), positive(q.Floor) // 0: too few points have a twin
		for i, r := range q.Residuals {
			t.Residuals[i] = Num(r)
		}
	}
	return t
}

func positive(v float64) Number {
	if v <= 0 {
		return Number{}
	}
	return Num(v)
}

// units are those of schema/cost, by JSON name.
var units = map[string]string{
	"c0": "s a chunk", "c1": "s a token", "c2": "s a token²", "chunk": "tokens a chunk",
	"t0": "s a fetch", "cold": "s, first use of a pair", "b": "bytes/s", "b1": "bytes/s", "gamma": "loss a further flow", "bend": "exponent of the size",
	"d0": "s", "d1": "s a byte", "bias": "s", "slope": "s a second reported", "omega": "share",
}

func flatten(v reflect.Value) (out []Value) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			out = append(out, flatten(f)...)
		case reflect.Float64:
			out = append(out, Value{Name: name, Unit: units[name], Value: Num(f.Float())})
		}
	}
	return out
}
