package wire

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxDeadLetterBytes is how much of a refused record is kept.
const MaxDeadLetterBytes = 64 << 10

// Where a dead letter was refused: DeadLetter.Source.
const (
	SourceOTLP  = "otlp"  // at the door; Bytes is an ExportTraceServiceRequest of one span
	SourceKafka = "kafka" // by a consumer; Bytes is an encoded Part, or a whole message
	SourceRetry = "retry" // no letter but the mark of one that was retried: see RetryMark
)

// Codes of a mark: what became of the letter.
const (
	RetrySent    = "sent"    // it went through the door, to the topic of parts
	RetryRefused = "refused" // it was refused again, and a new letter says why
)

// DeadLetter is a record that was refused, and why. What came from Kafka is
// known by (Topic, Partition, Offset, Index); what was refused at the door by
// SHA256.
type DeadLetter struct {
	Code    string // class of the reason, one of a few; "" in letters of before it was kept
	Reason  string
	Source  string
	Adapter string

	Topic     string
	Partition int64
	Offset    int64
	Index     int64 // of the part in its message, of the span in its request; −1: the whole message

	SHA256  [sha256.Size]byte // of the whole record, before any cut
	Bytes   []byte            // at most MaxDeadLetterBytes
	Length  int64             // of the whole record, bytes
	AtNanos int64             // Unix nanoseconds
}

// SetRecord keeps the record: all of it, or a cut that is marked by Length. The
// dead letter points into record afterwards.
func (l *DeadLetter) SetRecord(record []byte) {
	l.SHA256 = sha256.Sum256(record)
	l.Length = int64(len(record))
	l.Bytes = record[:min(len(record), MaxDeadLetterBytes)]
}

// Cut says whether Bytes is only the beginning of the record; such a record can
// not be retried.
func (l *DeadLetter) Cut() bool { return l.Length > int64(len(l.Bytes)) }

// RetryMark says that the letter at an offset of the dead-letter topic was retried
// at an instant, in Unix nanoseconds. It goes into the same topic, as a dead letter
// without a record; digest is the SHA-256 of the record that was retried.
func RetryMark(topic string, partition, offset int64, code string, digest [sha256.Size]byte, atNanos int64) *DeadLetter {
	return &DeadLetter{Source: SourceRetry, Code: code, Topic: topic, Partition: partition, Offset: offset, Index: -1,
		SHA256: digest, AtNanos: atNanos}
}

// MessageOf gives one part, encoded as it was refused, as a message of its own.
func MessageOf(frame []byte) []byte {
	b := AppendBatch(nil)
	return protowire.AppendBytes(protowire.AppendTag(b, partField, protowire.BytesType), frame)
}

// AppendDeadLetter appends the encoding of l, the value of one Kafka message.
func AppendDeadLetter(b []byte, l *DeadLetter) []byte {
	text, ints := letterText(l), letterInts(l)
	b = appendUint(b, versionField, Version)
	b = appendText(b, 2, text[:]...)
	b = appendInts(b, 6, ints[:]...)
	b = appendID(b, 9, l.SHA256[:])
	if len(l.Bytes) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), l.Bytes)
	}
	b = appendUint(b, 11, uint64(l.Length))
	b = appendFixed(b, 12, uint64(l.AtNanos))
	return appendText(b, 13, &l.Code)
}

// DecodeDeadLetter decodes the value of one message of the dead-letter topic.
// l.Bytes points into b afterwards.
func DecodeDeadLetter(b []byte, l *DeadLetter) error {
	*l = DeadLetter{}
	b, err := afterVersion(b)
	c := over(b)
	c.Err = err
	for c.Next() {
		c.Err = letterField(c.at(), l)
	}
	if c.Err != nil {
		return c.within("decode dead letter")
	}
	if len(l.Bytes) > MaxDeadLetterBytes || l.Length < int64(len(l.Bytes)) {
		return fmt.Errorf("decode dead letter: %d bytes kept of %d", len(l.Bytes), l.Length)
	}
	return nil
}

func letterField(f *field, l *DeadLetter) error {
	text, ints := letterText(l), letterInts(l)
	if i, ok := f.among(2, len(text)); ok {
		*text[i] = string(f.Bytes)
		return f.is(protowire.BytesType)
	}
	if i, ok := f.among(6, len(ints)); ok {
		return f.int(ints[i])
	}
	switch f.Number {
	case 9:
		return f.id(l.SHA256[:])
	case 10:
		l.Bytes = f.Bytes
		return f.is(protowire.BytesType)
	case 11:
		l.Length = int64(f.Num)
		return f.is(protowire.VarintType)
	case 12:
		return f.nanos(&l.AtNanos)
	case 13:
		l.Code = string(f.Bytes)
		return f.is(protowire.BytesType)
	}
	return nil
}
