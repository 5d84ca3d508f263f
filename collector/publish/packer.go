package publish

import (
	"errors"

	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// maxKept bounds the memory that a packer keeps from one request to the next, in
// bytes. Larger requests are seldom, and get memory of their own.
const maxKept = 2 << 20

// packer makes Kafka messages of parts.
type packer struct {
	batcher  wire.Batcher
	packed   [][]byte
	messages []kafka.Message
}

// pack encodes the parts, and moves those that are too large.
func (k *packer) pack(r *extract.Result) {
	for i := range r.Parts {
		if err := k.batcher.Add(&r.Parts[i]); errors.Is(err, wire.ErrTooLarge) {
			r.Refuse(i, err)
		}
	}
	k.packed = k.batcher.Messages()
	k.messages = k.messages[:0]
	for _, value := range k.packed {
		k.messages = append(k.messages, kafka.Message{Value: value})
	}
}

// giveBack makes the packer ready for another request, once nobody reads its
// messages any more. It says whether the packer is worth keeping.
func (k *packer) giveBack() bool {
	held := 0
	for _, value := range k.packed {
		held += cap(value)
	}
	clear(k.messages)
	k.batcher.Reuse(k.packed)
	return held <= maxKept
}
