package publish

import (
	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/schema"
)

// Assemble makes a challenger out of fitted laws. A law that was not fitted this
// time, for want of traffic, is taken over from champion (nil: there is none) with
// the quality that it had.
func Assemble(laws fit.Laws, champion *schema.Document, provenance string) schema.Document {
	d := schema.Document{
		Version: schema.DocumentVersion, Provenance: provenance, Fit: laws.Window,
		Prefill: laws.Prefill, Transfer: laws.Transfer, Restore: laws.Restore, Queue: laws.Queue,
	}
	if champion == nil {
		return d
	}
	d.Prefill = merge(d.Prefill, champion.Prefill, func(f schema.PrefillFit) [2]string { return [2]string{f.Model, f.GPU} })
	d.Transfer = merge(d.Transfer, champion.Transfer, func(f schema.TransferFit) [2]string { return [2]string{f.Tier, f.Link} })
	d.Restore = merge(d.Restore, champion.Restore, func(f schema.RestoreFit) [2]string { return [2]string{f.Model, f.Tier} })
	if d.Queue.Quality.N == 0 {
		d.Queue = champion.Queue
	}
	return d
}

func merge[T any](fresh, old []T, key func(T) [2]string) []T {
	out := append([]T(nil), fresh...)
	have := map[[2]string]bool{}
	for _, f := range fresh {
		have[key(f)] = true
	}
	for _, f := range old {
		if !have[key(f)] {
			out = append(out, f)
		}
	}
	return out
}
