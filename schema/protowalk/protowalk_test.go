package protowalk

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestFields(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 300, 16_383, 16_384, 1 << 20} {
		text := strings.Repeat("x", size)
		b := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), text)
		b = protowire.AppendVarint(protowire.AppendTag(b, 16, protowire.VarintType), 1<<40)
		b = protowire.AppendFixed64(protowire.AppendTag(b, 5, protowire.Fixed64Type), 7)
		b = protowire.AppendFixed32(protowire.AppendTag(b, 6, protowire.Fixed32Type), 8)
		c := Over(b)
		require.True(t, c.Next())
		require.Equal(t, Field{Number: 3, Type: protowire.BytesType, Bytes: []byte(text)}, c.Field)
		require.True(t, c.Next())
		require.Equal(t, Field{Number: 16, Type: protowire.VarintType, Num: 1 << 40}, c.Field)
		require.True(t, c.Next())
		require.Equal(t, Field{Number: 5, Type: protowire.Fixed64Type, Num: 7}, c.Field)
		require.True(t, c.Next())
		require.Equal(t, Field{Number: 6, Type: protowire.Fixed32Type}, c.Field)
		require.False(t, c.Next())
		require.NoError(t, c.Err)
	}
}

func TestBroken(t *testing.T) {
	for _, b := range [][]byte{{0x0a}, {0x0a, 5, 1}, {0x02, 0}, {0x0a, 0xff, 0xff}, {0x08}, {0x09, 1}, {0x0f}} {
		c := Over(b)
		require.False(t, c.Next(), "%x", b)
		require.Error(t, c.Err)
		require.False(t, c.Next())
	}
}

// The cursor sees what protowire sees.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{0x0a, 1, 'x', 0x08, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Over(b)
		for c.Next() {
			number, typ, n := protowire.ConsumeField(b)
			require.Positive(t, n)
			_ = typ
			require.Equal(t, number, c.Number)
			if typ == protowire.BytesType {
				require.True(t, bytes.HasSuffix(b[:n], c.Bytes))
			}
			b = b[n:]
			require.Equal(t, len(b), len(c.Rest))
		}
		if c.Err != nil {
			_, _, n := protowire.ConsumeField(b)
			require.Negative(t, n)
		}
	})
}
