package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/trace"

	"github.com/kvwhatif/kvwhatif/schema"
)

// idsFor derives the ids of one simulated span from what makes it unique, so
// that the same run again gives the same spans, which merge instead of doubling.
func idsFor(run, scope string, seed uint64, index uint64) (schema.TraceID, schema.SpanID) {
	h := sha256.New()
	h.Write([]byte(run))
	h.Write([]byte{0})
	h.Write([]byte(scope))
	h.Write([]byte{0})
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], seed)
	binary.BigEndian.PutUint64(n[8:], index)
	h.Write(n[:])
	sum := h.Sum(nil)
	return schema.TraceID(sum[:16]), schema.SpanID(sum[16:24])
}

type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// withIDs makes the next span that is started from the context have these ids.
func withIDs(ctx context.Context, t schema.TraceID, s schema.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, ids{trace.TraceID(t), trace.SpanID(s)})
}

// contextIDs is an id generator of the OTel SDK that takes the ids of withIDs,
// and random ones where nobody gave any.
type contextIDs struct{}

// NewIDs gives the ids of a root span.
func (contextIDs) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if v, ok := ctx.Value(idsKey{}).(ids); ok {
		return v.trace, v.span
	}
	rand.Read(t[:])
	rand.Read(s[:])
	return t, s
}

// NewSpanID gives the id of a child span.
func (g contextIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := g.NewIDs(ctx)
	return s
}
