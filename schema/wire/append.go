package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The appenders below are for what is rare. They leave out what is zero.

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

// appendID writes an identifier, unless all its bytes are zero.
func appendID(b []byte, num protowire.Number, id []byte) []byte {
	for _, x := range id {
		if x != 0 {
			return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), id)
		}
	}
	return b
}
