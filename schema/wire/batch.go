package wire

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	versionField = 1
	partField    = 2
	headerSize   = 2 // of the version, before the first part
)

// AppendBatch appends a whole message that holds the parts given. It does not
// look at the size: a Batcher does.
func AppendBatch(b []byte, parts ...*schema.Part) []byte {
	b = appendUint(b, versionField, Version)
	for _, p := range parts {
		b = appendFramed(b, p)
	}
	return b
}

// Frames gives the parts of a message, each still encoded, in order; a frame
// points into msg. An error comes last, with the bytes from the place where
// reading had to stop: at the start where the version is unknown (ErrVersion),
// later where the framing itself is broken.
func Frames(msg []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		rest, err := afterVersion(msg)
		if err != nil {
			yield(msg, err)
			return
		}
		c := over(rest)
		for c.Next() {
			if c.Number != partField || c.Type != protowire.BytesType {
				c.Err = fmt.Errorf("field %d is none of a batch of version %d", c.Number, Version)
				break
			}
			if !yield(c.Bytes, nil) {
				return
			}
			rest = c.Rest
		}
		if c.Err != nil {
			yield(rest, fmt.Errorf("read the frames of a message at byte %d of %d: %w", len(msg)-len(rest), len(msg), c.Err))
		}
	}
}

// afterVersion reads the version, which is the first field of every message.
func afterVersion(msg []byte) ([]byte, error) {
	c := over(msg)
	if !c.Next() || c.Number != versionField || c.Type != protowire.VarintType {
		return nil, fmt.Errorf("%w: the message does not begin with one", ErrVersion)
	}
	if c.Num != Version {
		return nil, fmt.Errorf("%w %d, this program reads %d: update it, or find out who else writes to the topic", ErrVersion, c.Num, Version)
	}
	return c.Rest, nil
}

// Batcher packs parts into messages of at most Max bytes. Its zero value is
// ready and packs up to MaxMessage. The messages that it gave out are not
// touched again.
type Batcher struct {
	Max int // bytes; 0 is MaxMessage

	done    [][]byte
	current []byte
	free    [][]byte // memory of messages that came back
}

// Add appends the part to the message under way, or begins another one. The
// error is ErrTooLarge, wrapped; the Batcher goes on without that part.
func (t *Batcher) Add(p *schema.Part) error {
	if len(p.Decision.Candidates) > MaxCandidates {
		return fmt.Errorf("%w: %d candidates, at most %d", ErrTooLarge, len(p.Decision.Candidates), MaxCandidates)
	}
	if t.current == nil {
		t.current = AppendBatch(t.memory())
	}
	start := len(t.current)
	b := appendFramed(t.current, p)
	if len(b) <= t.max() {
		t.current = b
		return nil
	}
	t.current = b[:start]
	fresh := append(AppendBatch(t.memory()), b[start:]...)
	if len(fresh) > t.max() {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(fresh), t.max())
	}
	t.close()
	t.current = fresh
	return nil
}

// Messages gives the messages made so far and forgets them.
func (t *Batcher) Messages() [][]byte {
	t.close()
	done := t.done
	t.done = nil
	return done
}

// Reuse takes back what Messages gave, once nobody reads it any more: its memory
// is used for the messages to come.
func (t *Batcher) Reuse(messages [][]byte) {
	t.free = append(t.free, messages...)
	if t.done == nil {
		t.done = messages[:0]
	}
}

// memory gives an empty message, with what room there is.
func (t *Batcher) memory() []byte {
	n := len(t.free)
	if n == 0 {
		return nil
	}
	b := t.free[n-1]
	t.free[n-1], t.free = nil, t.free[:n-1]
	return b[:0]
}

func (t *Batcher) close() {
	if len(t.current) > headerSize {
		t.done = append(t.done, t.current)
	}
	t.current = nil
}

func (t *Batcher) max() int {
	if t.Max > 0 {
		return t.Max
	}
	return MaxMessage
}
