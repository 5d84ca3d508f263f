package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"strings"
	"sync"
)

// Buffers of the sizes that most requests need are kept for the next ones.
var (
	tinies  = sync.Pool{New: func() any { return new([tiny]byte) }}
	smalls  = sync.Pool{New: func() any { return new([firstReserve]byte) }}
	gunzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

func newBuffer(size int) []byte {
	switch size {
	case tiny:
		return tinies.Get().(*[tiny]byte)[:0]
	case firstReserve:
		return smalls.Get().(*[firstReserve]byte)[:0]
	}
	return make([]byte, 0, size)
}

// keepBuffer takes a buffer that nobody uses any more.
func keepBuffer(b []byte) {
	switch cap(b) {
	case tiny:
		tinies.Put((*[tiny]byte)(b[:tiny]))
	case firstReserve:
		smalls.Put((*[firstReserve]byte)(b[:firstReserve]))
	}
}

// body is a request as it comes.
type body struct {
	io.Reader
	announced int64 // bytes, as sent; 0: not known
	encoding  string
	isJSON    bool
}

// receive reads one request within the budget, and answers once it is safe. h is
// released at its end.
func (r *Receiver) receive(ctx context.Context, h *hold, b body) (partial, *failure) {
	var buf []byte
	defer func() { keepBuffer(buf) }()
	f := r.read(ctx, h, b, &buf)
	if f != nil {
		return partial{}, f
	}
	h.shrink(int64(cap(buf) + (withParts-1)*len(buf)))
	return r.exportBody(ctx, h, buf, b.isJSON)
}

// read reads all of a request into buf.
func (r *Receiver) read(ctx context.Context, h *hold, b body, buf *[]byte) (f *failure) {
	zipped, f := isZipped(b.encoding)
	if f != nil {
		return f
	}
	if !zipped {
		*buf, f = h.readAll(ctx, b.Reader, nil, int(b.announced), r.cfg.MaxRequestBytes)
		return f
	}
	h.beside = unzipping
	if f := h.reserve(ctx, h.beside); f != nil {
		return f
	}
	z := gunzips.Get().(*gzip.Reader)
	defer gunzips.Put(z)
	if err := z.Reset(b.Reader); err != nil {
		return readFailure(err)
	}
	*buf, f = h.readAll(ctx, z, nil, 0, r.cfg.MaxRequestBytes)
	return f
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

// isZipped says whether a body is to be decompressed.
func isZipped(encoding string) (bool, *failure) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return false, nil
	case "gzip":
		return true, nil
	}
	return false, failed(kindMedia, "the encoding %q is not supported: use gzip or none", encoding)
}

func (r *Receiver) tooLarge(bytes int64) *failure {
	return failed(kindTooLarge, "the request has %d bytes, more than %d (collect.max_request_bytes): send smaller batches", bytes, r.cfg.MaxRequestBytes)
}
