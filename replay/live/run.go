package live

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// Options are those of a run. Decide, Policy and Tracer are required.
type Options struct {
	Policy string        // as the spans name it
	Decide fleet.Decider // called for one request at a time
	Tracer trace.Tracer  // that spans are written with
	Tick   func(done, total int)
	Served func(schema.Part) // told of each request once its span is written; it may be called at once by several
}

// Run lets the requests come at their times, and returns once each has run and its
// span is written, with their parts in the order of the requests. The first
// failure ends it.
func (f *Fleet) Run(ctx context.Context, requests []Request, o Options) ([]schema.Part, error) {
	if o.Policy == "" || o.Decide == nil || o.Tracer == nil {
		return nil, errors.New("live fleet: a policy's name, a decider and a tracer are required")
	}
	out := make([]schema.Part, len(requests))
	done := make(chan struct{}, len(requests))
	group, inner := errgroup.WithContext(ctx)
	began := time.Now()
	for i := range requests {
		if err := sleepUntil(inner, began.Add(requests[i].At)); err != nil {
			break // the group has the reason, or the caller
		}
		p, err := f.decide(i, &requests[i], began, &o)
		if err != nil {
			group.Go(func() error { return err })
			break
		}
		group.Go(func() (err error) {
			if out[i], err = f.serve(inner, p); err != nil {
				return err
			}
			out[i].Trace, out[i].Span = kvspan.Write(ctx, o.Tracer, &out[i])
			if o.Served != nil {
				o.Served(out[i])
			}
			done <- struct{}{}
			if o.Tick != nil {
				o.Tick(len(done), len(requests))
			}
			return nil
		})
	}
	if err := errors.Join(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return out, nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
