package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"strings"
	"sync"
)

// maxPooled is the largest buffer kept for the next request, which may be small
// and reserves all of it.
const maxPooled = firstReserve

var (
	bodies  = sync.Pool{New: func() any { return new([]byte) }}
	gunzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

// body is a request as it comes.
type body struct {
	io.Reader
	announced int64 // bytes, as sent; 0: not known
	encoding  string
	isJSON    bool
}

// receive reads one request within the budget, and answers once it is safe.
func (r *Receiver) receive(ctx context.Context, b body) (partial, *failure) {
	h := hold{budget: r.budget}
	defer h.release()
	buf := bodies.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooled {
			bodies.Put(buf)
		}
	}()
	if f := h.reserve(ctx, withParts*int64(cap(*buf))); f != nil {
		return partial{}, f
	}
	reader, done, f := decompressed(b.encoding, b.Reader)
	if f != nil {
		return partial{}, f
	}
	defer done()
	if reader != b.Reader {
		b.announced = 0
	}
	if *buf, f = h.readAll(ctx, reader, *buf, int(b.announced), r.cfg.MaxRequestBytes); f != nil {
		return partial{}, f
	}
	h.shrink(int64(cap(*buf) + (withParts-1)*len(*buf)))
	return r.exportBody(ctx, &h, *buf, b.isJSON)
}

func (r *Receiver) exportBody(ctx context.Context, h *hold, body []byte, isJSON bool) (partial, *failure) {
	factor := withParts
	if isJSON {
		factor = jsonFactor
	}
	f := h.reserve(ctx, int64(factor*len(body)))
	if f == nil && isJSON {
		body, f = fromJSON(body)
	}
	if f != nil {
		return partial{}, f
	}
	return r.export(ctx, body)
}

// decompressed reads body as its encoding says.
func decompressed(encoding string, body io.Reader) (io.Reader, func(), *failure) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return body, func() {}, nil
	case "gzip":
		z := gunzips.Get().(*gzip.Reader)
		if err := z.Reset(body); err != nil {
			gunzips.Put(z)
			return nil, nil, readFailure(err)
		}
		return z, func() { gunzips.Put(z) }, nil
	default:
		return nil, nil, failed(kindMedia, "the encoding %q is not supported: use gzip or none", encoding)
	}
}

func (r *Receiver) tooLarge(bytes int64) *failure {
	return failed(kindTooLarge, "the request has %d bytes, more than %d (collect.max_request_bytes): send smaller batches", bytes, r.cfg.MaxRequestBytes)
}
