package otlp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/collector/extract"
)

// partial is OTLP's partial_success: spans that were refused, and why. Its zero
// value says that all were accepted.
type partial struct {
	rejected int
	why      string
}

// export takes one request, in protobuf, and answers once it is safe. It does
// not keep body.
func (r *Receiver) export(ctx context.Context, body []byte) (p partial, f *failure) {
	defer func() {
		if x := recover(); x != nil {
			r.logger.Error("a request broke the OTLP receiver", "panic", x, "stack", string(debug.Stack()))
			p, f = partial{}, failed(kindInternal, "a defect of kvwhatif: see its log")
		}
	}()
	result := r.result(len(body))
	defer r.reuse(result)
	if err := extract.Extract(body, extract.DefaultLimits(time.Now().UnixNano()), result); err != nil {
		if errors.Is(err, extract.ErrTooMany) {
			return partial{}, failed(kindTooLarge, "%v", err)
		}
		return partial{}, failed(kindInvalid, "%v", err)
	}
	if err := r.publisher.Publish(ctx, result); err != nil {
		return partial{}, unsent(ctx, err)
	}
	r.count(result)
	p = partial{len(result.Rejected), reasons(result.Rejected)}
	if p.rejected > 0 && r.mayLog(time.Now()) {
		r.logger.Warn("spans refused", "rejected", p.rejected, "spans", result.Spans, "reasons", p.why)
	}
	return p, nil
}

// A part is about a KiB, so the memory of large requests is kept for few of them:
// a sender's batch processor makes 8,192 spans by default.
const (
	smallParts = 4096
	largeParts = 16384
	largeKept  = 2
)

// result gives memory for a request of so many encoded bytes.
func (r *Receiver) result(size int) *extract.Result {
	const fewest = 100 // bytes of a span
	if size > smallParts*fewest {
		select {
		case kept := <-r.large:
			return kept
		default:
		}
	}
	return r.results.Get().(*extract.Result)
}

// reuse keeps the memory of a result for another request, within bounds.
func (r *Receiver) reuse(result *extract.Result) {
	switch n := max(cap(result.Parts), cap(result.Rejected)); {
	case n <= smallParts:
		r.results.Put(result)
	case n <= largeParts:
		select {
		case r.large <- result:
		default: // enough are kept
		}
	}
}

// mayLog says whether refused spans may be logged: once in ten seconds, for a
// wrong sender is wrong in every request. The metrics count them all.
func (r *Receiver) mayLog(now time.Time) bool {
	until := r.quiet.Load()
	return now.UnixNano() >= until && r.quiet.CompareAndSwap(until, now.Add(10*time.Second).UnixNano())
}

// reasons gives the first few different ones.
func reasons(rejected []extract.Reject) string {
	const most = 3
	var different []string
	for i := range rejected {
		if slices.Contains(different, rejected[i].Reason) {
			continue
		}
		if len(different) == most {
			different = append(different, "and others, see the dead-letter topic")
			break
		}
		different = append(different, rejected[i].Reason)
	}
	if len(different) == 0 {
		return ""
	}
	return fmt.Sprintf("%d spans refused: %s", len(rejected), strings.ToValidUTF8(strings.Join(different, "; "), "?"))
}
