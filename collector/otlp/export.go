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
	result := r.results.Get().(*extract.Result)
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

// reuse keeps the memory of a result for another request, unless it is
// large.
func (r *Receiver) reuse(result *extract.Result) {
	const most = 4096
	if cap(result.Parts) <= most && cap(result.Rejected) <= most {
		r.results.Put(result)
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
