package coefficients

import (
	"fmt"
	"math"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Check says why d can not be decided by; nil where it can. It looks at meaning
// (order of times, keys that come twice, physics); Validate looks at form.
func Check(d *schema.Document) error {
	for _, step := range []func(*schema.Document) error{
		checkHead, checkPrefill, checkTransfer, checkRestore, checkQueue, checkLinks,
	} {
		if err := step(d); err != nil {
			return fmt.Errorf("coefficient document, revision %d: %w", d.Revision, err)
		}
	}
	return nil
}

func checkHead(d *schema.Document) error {
	switch {
	case d.Version < 1 || d.Version > schema.DocumentVersion:
		return fmt.Errorf("version %d is not 1 to %d", d.Version, schema.DocumentVersion)
	case d.Revision < 1:
		return fmt.Errorf("a revision is at least 1")
	case d.Previous < 0 || d.Previous >= d.Revision:
		return fmt.Errorf("previous %d is not below the revision", d.Previous)
	case d.Created <= 0:
		return fmt.Errorf("created is missing")
	case d.RefreshAfter < d.Created || d.Expires < d.RefreshAfter:
		return fmt.Errorf("created, refresh-after and expires are out of order")
	case d.Fit.UntilNanos < d.Fit.FromNanos:
		return fmt.Errorf("the fit's window ends before it begins")
	}
	return nil
}

// keys finds a key that comes twice.
type keys map[[2]string]bool

func (k keys) add(kind, a, b string) error {
	key := [2]string{a, b}
	if k[key] {
		return fmt.Errorf("%s of %q %q comes twice", kind, a, b)
	}
	k[key] = true
	return nil
}

func checkPrefill(d *schema.Document) error {
	seen := keys{}
	for i := range d.Prefill {
		f := &d.Prefill[i]
		if err := seen.add("prefill", f.Model, f.GPU); err != nil {
			return err
		}
		if !notNegative(f.Law.C0, f.Law.C1, f.Law.C2, f.Law.Chunk) || f.Law.C0+f.Law.C1+f.Law.C2 == 0 {
			return fmt.Errorf("prefill of %q on %q: c0, c1, c2 and chunk are at least 0 and not all 0", f.Model, f.GPU)
		}
		if err := checkQuality(&f.Quality); err != nil {
			return fmt.Errorf("prefill of %q on %q: %w", f.Model, f.GPU, err)
		}
	}
	return nil
}

func checkTransfer(d *schema.Document) error {
	seen := keys{}
	for i := range d.Transfer {
		f := &d.Transfer[i]
		if err := seen.add("transfer", f.Tier, f.Link); err != nil {
			return err
		}
		if _, ok := schema.ParseTier(f.Tier); !ok {
			return fmt.Errorf("transfer over %q: %q is no tier", f.Link, f.Tier)
		}
		if err := checkTransferLaw(f.Law); err != nil {
			return fmt.Errorf("transfer from %q over %q: %w", f.Tier, f.Link, err)
		}
		if err := checkQuality(&f.Quality); err != nil {
			return fmt.Errorf("transfer from %q over %q: %w", f.Tier, f.Link, err)
		}
	}
	return nil
}

func checkTransferLaw(t cost.Transfer) error {
	if !notNegative(t.T0, t.Cold, t.Bend, t.Link.B, t.Link.B1, t.Link.Gamma) {
		return fmt.Errorf("t0, cold, bend, b, b1 and gamma are at least 0")
	}
	if t.Link.B == 0 || t.Bend >= 1 {
		return fmt.Errorf("b is above 0, bend below 1")
	}
	return nil
}

func checkRestore(d *schema.Document) error {
	seen := keys{}
	for i := range d.Restore {
		f := &d.Restore[i]
		if err := seen.add("restore", f.Model, f.Tier); err != nil {
			return err
		}
		if _, ok := schema.ParseTier(f.Tier); !ok || !notNegative(f.Law.D0, f.Law.D1) {
			return fmt.Errorf("restore of %q from %q: the tier is known, d0 and d1 are at least 0", f.Model, f.Tier)
		}
		if err := checkQuality(&f.Quality); err != nil {
			return fmt.Errorf("restore of %q from %q: %w", f.Model, f.Tier, err)
		}
	}
	return nil
}

func checkQueue(d *schema.Document) error {
	q := &d.Queue
	if !finite(q.Bias) || !notNegative(q.Slope) || !(q.Omega >= 0 && q.Omega <= 1) {
		return fmt.Errorf("queue: the slope is at least 0 and omega 0 to 1")
	}
	if err := checkQuality(&q.Quality); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

func checkLinks(d *schema.Document) error {
	seen := keys{}
	for _, l := range d.Links {
		if err := seen.add("price", l.Link, ""); err != nil {
			return err
		}
		if !notNegative(l.Price.Load, l.Price.MeanBytes) || l.Price.Load >= 1 || l.Coordinators < 1 || l.Demand < 0 {
			return fmt.Errorf("price of %q: the load is 0 to below 1, coordinators at least 1", l.Link)
		}
	}
	return nil
}

func checkQuality(q *schema.Quality) error {
	if q.N < 0 || !notNegative(q.Error, q.Floor, q.MaxTokens, q.MaxBytes, q.MaxConcurrent) {
		return fmt.Errorf("quality: counts, errors and bounds are at least 0")
	}
	if !finite(q.Residuals[:]...) || !finite(q.Covariance...) {
		return fmt.Errorf("quality: residuals and covariance are numbers")
	}
	return nil
}

func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func notNegative(values ...float64) bool {
	for _, v := range values {
		if !(v >= 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
