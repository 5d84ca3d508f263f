package app

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kvwhatif/kvwhatif/replay/fleet"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/kvspan"
)

// traffic is one policy's run of one scenario: a simulated fleet, its coordinator,
// and the spans that they write.
type traffic struct {
	sim         *fleet.Sim
	coordinator *coordinator
	requests    []fleet.Request
	name        identity
	base        time.Time // of simulated second 0
	first       int       // index in the whole trace of requests[0]
	revision    []int64   // of the document that request i was decided by
	outcomes    []fleet.Outcome
	byIndex     []int32 // place in outcomes by index; nil before it is asked for
}

// identity is what makes a run's spans its own: the same again gives the same ids.
type identity struct {
	run      string // of the directory
	scenario string
	policy   string // as written on the spans
	seed     uint64
}

func (n identity) scope() string { return n.scenario + "/" + n.policy }

// trafficSpec says which run.
type trafficSpec struct {
	name     identity
	decide   string // policy that decides
	fleet    fleet.Config
	requests []fleet.Request
	first    int
	base     time.Time
	explore  fleet.Exploration
}

func newTraffic(spec trafficSpec, c *coordinator) (*traffic, error) {
	t := &traffic{
		coordinator: c, requests: spec.requests, name: spec.name, base: spec.base, first: spec.first,
		revision: make([]int64, len(spec.requests)),
	}
	decide, err := c.decider(spec.decide, spec.explore)
	if err != nil {
		return nil, err
	}
	spec.fleet.Policy = spec.name.policy
	t.sim, err = fleet.New(spec.fleet, spec.requests, func(q *fleet.Query) int {
		chosen := decide(q)
		t.revision[q.Index] = c.revision()
		return chosen
	})
	if err != nil {
		return nil, fmt.Errorf("scenario %s, policy %s: %w", spec.name.scenario, spec.name.policy, err)
	}
	return t, nil
}

// service is the service.name of the run's coordinator.
func (t *traffic) service() string { return "coordinator-" + t.name.scenario }

// nanos is the instant of a simulated second.
func (t *traffic) nanos(seconds float64) int64 {
	return t.base.UnixNano() + int64(seconds*1e9)
}

// instant is nanos as a time.
func (t *traffic) instant(seconds float64) time.Time { return time.Unix(0, t.nanos(seconds)).UTC() }

// part is the contract span of one outcome.
func (t *traffic) part(o *fleet.Outcome) schema.Part {
	p := schema.Part{
		Kind: schema.KindContract, Adapter: "kvreuse", Service: t.service(),
		RequestID:  fmt.Sprintf("%s-%s-%d-%d", t.name.scenario, t.name.policy, t.name.seed, t.first+o.Index),
		StartNanos: t.nanos(o.At), EndNanos: t.nanos(o.FirstToken),
		Decision: o.Decision, Observed: o.Observed,
	}
	p.Decision.Revision = t.revision[o.Index]
	p.Trace, p.Span = t.ids(o.Index)
	return p
}

func (t *traffic) ids(index int) (schema.TraceID, schema.SpanID) {
	return idsFor(t.name.run, t.name.scope(), t.name.seed, uint64(t.first+index))
}

// emit writes the spans of outcomes; the tracer's queue blocks when it is full.
func (t *traffic) emit(ctx context.Context, tracer trace.Tracer, outcomes []fleet.Outcome) {
	for i := range outcomes {
		p := t.part(&outcomes[i])
		kvspan.Write(withIDs(ctx, p.Trace, p.Span), tracer, &p)
	}
}
