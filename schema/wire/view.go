package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

// The texts of a View, in the order in which View.Texts holds them.
const (
	TextAdapter = iota
	TextService
	TextRequestID
	TextPolicy // those of the decision follow in the order of their numbers
	TextTenant
	TextModel
	TextGPU
	TextWorker
	TextSourceWorker
	TextLink
	Texts
)

// The counts of a View.
const (
	CountChosen = iota // those of the decision, in the order of their numbers
	CountTokensPrompt
	CountTokensPrefix
	CountTokensReused
	CountLinkFlows
	CountWorkerActive
	CountBytes
	Counts
)

// The durations of a View.
const (
	SecondsGPUQueue = iota // those observed, in the order of their numbers
	SecondsTransferQueue
	SecondsTransfer
	SecondsTransferStart
	SecondsExposedStall
	SecondsRestore
	SecondsPrefill
	SecondsTTFT
	SecondsStateAge
	Durations
)

// View is a contract part as it lies in its frame: what a consumer of many such
// parts needs to copy out of them, without allocation. Only what its masks name
// has a meaning; the rest is of an earlier part.
//
// Its strings point into the frame. They are good as long as nobody changes the
// bytes of the message.
type View struct {
	Trace      schema.TraceID
	Span       schema.SpanID
	StartNanos int64
	EndNanos   int64
	Revision   int64
	Path       schema.Path
	SourceTier schema.Tier

	HasTexts, HasCounts, HasSeconds uint32 // bit i: element i below is there
	Texts                           [Texts]string
	Counts                          [Counts]int64
	Seconds                         [Durations]float64
	Candidates                      []schema.Candidate
}

// Text gives text i, empty where it is not there.
func (v *View) Text(i int) string {
	if v.HasTexts&(1<<i) == 0 {
		return ""
	}
	return v.Texts[i]
}

// Count gives count i, missing where it is not there.
func (v *View) Count(i int) schema.Count {
	if v.HasCounts&(1<<i) == 0 {
		return schema.Count{}
	}
	return schema.Some(v.Counts[i])
}

// Second gives duration i, missing where it is not there.
func (v *View) Second(i int) schema.Seconds {
	if v.HasSeconds&(1<<i) == 0 {
		return schema.Seconds{}
	}
	return schema.Some(v.Seconds[i])
}

// Contract reads the encoding of a contract part into v. It is false for every
// other kind, and for a part that it does not read: then Decoder.Part says what
// is wrong with it, if anything is. What it reads is what Decoder.Part reads.
func (v *View) Contract(frame []byte) bool {
	v.Trace, v.Span = schema.TraceID{}, schema.SpanID{}
	v.StartNanos, v.EndNanos, v.Revision, v.Path, v.SourceTier = 0, 0, 0, 0, 0
	v.HasTexts, v.HasCounts, v.HasSeconds, v.Candidates = 0, 0, 0, v.Candidates[:0]
	kind := uint64(0)
	s := scanner{rest: frame}
	for s.next() {
		switch s.tag {
		case 1<<3 | varint:
			kind = s.num
		case 2<<3 | length:
			v.text(TextAdapter, s.data)
		case 3<<3 | length:
			v.text(TextService, s.data)
		case 4<<3 | length:
			s.id(v.Trace[:])
		case 5<<3 | length:
			s.id(v.Span[:])
		case 6<<3 | length:
			s.bad = s.bad || len(s.data) != len(schema.SpanID{})
		case 7<<3 | fixed64:
			v.StartNanos = int64(s.num)
		case 8<<3 | fixed64:
			v.EndNanos = int64(s.num)
		case 9<<3 | length:
			v.text(TextRequestID, s.data)
		case 10<<3 | length:
			s.bad = !v.decision(s.data)
		case 11<<3 | length:
			s.bad = !v.observed(s.data)
		default: // of another kind, of another type, or of a later revision
			s.bad = s.bad || s.tag>>3 <= 14
		}
	}
	return !s.bad && kind == uint64(schema.KindContract)
}

func (v *View) decision(message []byte) bool {
	s := scanner{rest: message}
	for s.next() {
		n := int(s.tag >> 3)
		switch kind := s.tag & 7; {
		case kind == length && n <= 7:
			v.text(TextPolicy+n-1, s.data)
		case kind == length && n == 19:
			s.bad = !v.candidate(s.data)
		case kind == varint && n >= 11 && n <= 16:
			v.count(CountChosen+n-11, s.num)
		case kind == varint && n == 8:
			v.Path, s.bad = schema.Path(s.num), s.num > uint64(schema.PathResident)
		case kind == varint && n == 9:
			v.SourceTier, s.bad = schema.Tier(s.num), s.num > uint64(schema.TierPeer)
		case kind == varint && n == 10:
			v.Revision = protowire.DecodeZigZag(s.num)
		case kind == fixed64 && n == 17:
			v.second(SecondsStateAge, s.num)
		case kind == length && n == 18: // hashes of blocks are for the replayer
			s.bad = len(s.data)%8 != 0
		case kind == fixed64 && n == 18:
		default:
			s.bad = n <= 19
		}
	}
	return !s.bad
}

func (v *View) observed(message []byte) bool {
	s := scanner{rest: message}
	for s.next() {
		n := int(s.tag >> 3)
		switch kind := s.tag & 7; {
		case kind == fixed64 && n >= 2 && n <= 9:
			v.second(SecondsGPUQueue+n-2, s.num)
		case kind == varint && n == 1:
			v.count(CountBytes, s.num)
		default:
			s.bad = n <= 9
		}
	}
	return !s.bad
}

func (v *View) candidate(message []byte) bool {
	if len(v.Candidates) == MaxCandidates {
		return false
	}
	v.Candidates = append(v.Candidates, schema.Candidate{})
	x := &v.Candidates[len(v.Candidates)-1]
	s := scanner{rest: message}
	for s.next() {
		switch n := int(s.tag >> 3); s.tag & 7 {
		case length:
			s.bad = !candidateName(x, n, s.data)
		case fixed64:
			s.bad = !candidateFloat(x, n, math.Float64frombits(s.num))
		default:
			s.bad = !candidateInt(x, n, s.num)
		}
	}
	return !s.bad
}

// The three functions below set field n of a candidate. They are false where the
// field is there and of another type; a number that is not known is passed over.

func candidateName(x *schema.Candidate, n int, data []byte) bool {
	switch n {
	case 1:
		x.Worker = within(data)
	case 2:
		x.Source = within(data)
	case 3:
		x.Links = within(data)
	default:
		return n > 17
	}
	return true
}

func candidateInt(x *schema.Candidate, n int, num uint64) bool {
	switch n {
	case 4:
		x.Path = schema.Path(num)
		return num <= uint64(schema.PathResident)
	case 5:
		x.Tier = schema.Tier(num)
		return num <= uint64(schema.TierPeer)
	case 6:
		x.TokensResident = protowire.DecodeZigZag(num)
	case 7:
		x.TokensFetched = protowire.DecodeZigZag(num)
	case 8:
		x.TokensComputed = protowire.DecodeZigZag(num)
	case 9:
		x.Bytes = protowire.DecodeZigZag(num)
	default:
		return n > 17
	}
	return true
}

func candidateFloat(x *schema.Candidate, n int, f float64) bool {
	switch n {
	case 10:
		x.GPUQueue = f
	case 11:
		x.TransferQueue = f
	case 12:
		x.Bandwidth = f
	case 13:
		x.Restore = f
	case 14:
		x.Recompute = f
	case 15:
		x.TTFT = f
	case 16:
		x.Externality = f
	case 17:
		x.Propensity = f
	default:
		return n > 17
	}
	return true
}

func (v *View) text(i int, data []byte) {
	v.Texts[i] = within(data)
	v.HasTexts |= 1 << i
}

func (v *View) count(i int, num uint64) {
	v.Counts[i] = protowire.DecodeZigZag(num)
	v.HasCounts |= 1 << i
}

func (v *View) second(i int, num uint64) {
	v.Seconds[i] = math.Float64frombits(num)
	v.HasSeconds |= 1 << i
}

// within is a string that lies in the message: the only use of package unsafe
// here. A Go string never changes, and messages are not written to once they
// were read.
func within(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// Types of a field in the low three bits of its tag.
const (
	varint  = uint64(protowire.VarintType)
	fixed64 = uint64(protowire.Fixed64Type)
	length  = uint64(protowire.BytesType)
)

// scanner goes over fields whose tags take one or two bytes, of the three types
// that parts.proto has. bad says that it met something else.
type scanner struct {
	rest []byte
	data []byte
	tag  uint64
	num  uint64
	bad  bool
}

func (s *scanner) next() bool {
	b := s.rest
	if len(b) < 2 || s.bad {
		s.bad = s.bad || len(b) == 1
		return false
	}
	tag := uint64(b[0])
	b = b[1:]
	if tag >= 0x80 {
		tag, b = tag&0x7f|uint64(b[0])<<7, b[1:]
	}
	s.tag = tag
	if tag&7 == fixed64 && len(b) >= 8 {
		s.num, s.rest = binary.LittleEndian.Uint64(b), b[8:]
	} else if s.num, b = uvarint(b); b == nil || tag&7 == fixed64 {
		s.bad = true
	} else if tag&7 == length && s.num <= uint64(len(b)) {
		s.data, s.rest = b[:s.num:s.num], b[s.num:]
	} else if s.rest = b; tag&7 != varint {
		s.bad = true
	}
	s.bad = s.bad || tag < 8 || tag >= 0x4000 // a number of 0, or a tag of three bytes
	return !s.bad
}

// uvarint reads a varint of at most ten bytes, and gives what follows it, which
// is nil where there is none to read.
func uvarint(b []byte) (uint64, []byte) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	if len(b) >= 8 { // up to eight bytes at once
		word := binary.LittleEndian.Uint64(b)
		if last := ^word & 0x8080808080808080; last != 0 {
			n := bits.TrailingZeros64(last)/8 + 1
			return gather(word << (64 - 8*n) >> (64 - 8*n)), b[n:]
		}
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}
	return v, b[n:]
}

// gather puts the seven low bits of each byte together.
func gather(w uint64) uint64 {
	w &= 0x7f7f7f7f7f7f7f7f
	w = w&0x007f007f007f007f | w&0x7f007f007f007f00>>1
	w = w&0x00003fff00003fff | w&0x3fff00003fff0000>>2
	return w&0x000000000fffffff | w&0x0fffffff00000000>>4
}

func (s *scanner) id(dst []byte) {
	if len(s.data) != len(dst) {
		s.bad = true
		return
	}
	copy(dst, s.data)
}
