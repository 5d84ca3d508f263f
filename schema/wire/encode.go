package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// AppendPart appends the encoding of p, a Part of parts.proto, without a frame.
func AppendPart(b []byte, p *schema.Part) []byte {
	b = appendUint(b, 1, uint64(p.Kind))
	b = appendText(b, 2, &p.Adapter, &p.Service)
	b = appendID(b, 4, p.Trace[:])
	b = appendID(b, 5, p.Span[:])
	b = appendID(b, 6, p.Parent[:])
	b = appendFixed(b, 7, uint64(p.StartNanos))
	b = appendFixed(b, 8, uint64(p.EndNanos))
	b = appendText(b, 9, &p.RequestID)

	b, at := begin(b, 10)
	b = end(appendDecision(b, &p.Decision), at)
	b, at = begin(b, 11)
	b = end(appendObserved(b, &p.Observed), at)
	b, at = begin(b, 12)
	b = end(appendEngine(b, &p.Engine), at)
	b, at = begin(b, 13)
	b = end(appendTransfer(b, &p.Transfer), at)
	b, at = begin(b, 14)
	return end(appendReplay(b, &p.Replay), at)
}

func appendDecision(b []byte, d *schema.Decision) []byte {
	text, counts := decisionText(d), decisionCounts(d)
	b = appendText(b, 1, text[:]...)
	b = appendUint(b, 8, uint64(d.Path))
	b = appendUint(b, 9, uint64(d.SourceTier))
	b = appendInts(b, 10, &d.Revision)
	b = appendCounts(b, 11, counts[:]...)
	b = appendSeconds(b, 17, &d.StateAge)
	if n := len(d.PrefixBlocks); n > 0 {
		b = protowire.AppendTag(b, 18, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(8*n))
		for _, h := range d.PrefixBlocks {
			b = protowire.AppendFixed64(b, uint64(h))
		}
	}
	for i := range d.Candidates {
		var at int
		b, at = begin(b, 19)
		b = endKept(appendCandidate(b, &d.Candidates[i]), at)
	}
	return b
}

func appendCandidate(b []byte, c *schema.Candidate) []byte {
	text, ints := candidateText(c), candidateInts(c)
	b = appendText(b, 1, text[:]...)
	b = appendUint(b, 4, uint64(c.Path))
	b = appendUint(b, 5, uint64(c.Tier))
	b = appendInts(b, 6, ints[:]...)
	for i, f := range candidateFloats(c) {
		b = appendFixed(b, protowire.Number(10+i), math.Float64bits(*f))
	}
	return b
}

func appendObserved(b []byte, o *schema.Observed) []byte {
	seconds := observedSeconds(o)
	b = appendCounts(b, 1, &o.Bytes)
	return appendSeconds(b, 2, seconds[:]...)
}

func appendEngine(b []byte, e *schema.Engine) []byte {
	counts, seconds := engineCounts(e), engineSeconds(e)
	b = appendText(b, 1, &e.Model)
	b = appendCounts(b, 2, counts[:]...)
	return appendSeconds(b, 5, seconds[:]...)
}

func appendTransfer(b []byte, t *schema.Transfer) []byte {
	text, counts, seconds := transferText(t), transferCounts(t), transferSeconds(t)
	b = appendText(b, 1, text[:]...)
	b = appendUint(b, 4, uint64(t.Tier))
	b = appendCounts(b, 5, counts[:]...)
	return appendSeconds(b, 7, seconds[:]...)
}

func appendReplay(b []byte, r *schema.Replay) []byte {
	text, counts, seconds := replayText(r), replayCounts(r), replaySeconds(r)
	b = appendText(b, 1, text[:]...)
	b = appendUint(b, 3, uint64(r.Path))
	b = appendUint(b, 4, uint64(r.Leg))
	b = appendID(b, 5, r.Of[:])
	b = appendID(b, 6, r.OfSpan[:])
	b = appendFixed(b, 7, math.Float64bits(r.Inclusion))
	b = appendCounts(b, 8, counts[:]...)
	return appendSeconds(b, 12, seconds[:]...)
}

// begin writes the tag of a nested message and one byte for its length; end
// closes it, and takes all of it back where the message is empty.
func begin(b []byte, num protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

func end(b []byte, at int) []byte {
	if len(b) == at { // numbers below 16 have a tag of one byte
		return b[:at-2]
	}
	return endKept(b, at)
}

// endKept is end for an element of a list, which is there though it is empty.
func endKept(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	b = append(b, make([]byte, more)...)
	copy(b[at+more:], b[at:at+n])
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}

// The appenders below leave out what is zero, and what is missing.

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendFixed(b []byte, num protowire.Number, bits uint64) []byte {
	if bits == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), bits)
}

func appendText(b []byte, from protowire.Number, text ...*string) []byte {
	for i, s := range text {
		if *s != "" {
			b = protowire.AppendTag(b, from+protowire.Number(i), protowire.BytesType)
			b = protowire.AppendString(b, *s)
		}
	}
	return b
}

func appendInts(b []byte, from protowire.Number, ints ...*int64) []byte {
	for i, v := range ints {
		b = appendUint(b, from+protowire.Number(i), protowire.EncodeZigZag(*v))
	}
	return b
}

func appendCounts(b []byte, from protowire.Number, counts ...*schema.Count) []byte {
	for i, c := range counts {
		if c.OK {
			b = protowire.AppendTag(b, from+protowire.Number(i), protowire.VarintType)
			b = protowire.AppendVarint(b, protowire.EncodeZigZag(c.V))
		}
	}
	return b
}

func appendSeconds(b []byte, from protowire.Number, seconds ...*schema.Seconds) []byte {
	for i, s := range seconds {
		if s.OK {
			b = protowire.AppendTag(b, from+protowire.Number(i), protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, math.Float64bits(s.V))
		}
	}
	return b
}

// appendID writes an identifier, unless all its bytes are zero.
func appendID(b []byte, num protowire.Number, id []byte) []byte {
	for _, x := range id {
		if x != 0 {
			return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), id)
		}
	}
	return b
}
