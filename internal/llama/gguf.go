package llama

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Shape is the size of a model of the llama architecture. A token's KV takes
// 4 × Layers × KVHeads × (Dim/Heads) bytes, as f16.
type Shape struct {
	Layers, Dim, Heads, KVHeads, FFN int
	Vocab                            int // at least FirstToken + 1
	Context                          int // tokens
	Seed                             uint64
}

// DefaultShape has 27 M weights, 54 MB: computing 1,024 tokens takes about a
// second on one core, and their KV 8.4 MB.
func DefaultShape() Shape {
	return Shape{Layers: 8, Dim: 512, Heads: 8, KVHeads: 4, FFN: 1536, Vocab: 2048, Context: 16384, Seed: 1}
}

// FirstToken is the first id of a plain token: before it are three control tokens
// and one for each byte.
const FirstToken = 3 + 256

// WriteModel writes a GGUF file of the shape with random weights: the same bytes
// each time. What it generates is noise; how long it takes is that of a trained
// model of its size.
func WriteModel(w io.Writer, s Shape) error {
	if s.Vocab <= FirstToken || s.Heads <= 0 || s.Dim%s.Heads != 0 || s.KVHeads <= 0 || s.Heads%s.KVHeads != 0 {
		return fmt.Errorf("write a model: %+v is no shape: dim must be a multiple of heads, heads of kv heads, and the vocabulary over %d", s, FirstToken)
	}
	g := &gguf{w: bufio.NewWriterSize(w, 1<<20)}
	tensors, fields := s.tensors(), s.fields()
	g.raw([]byte("GGUF"))
	g.u32(3) // version
	g.u64(uint64(len(tensors)))
	g.u64(uint64(len(fields)))
	for _, f := range fields {
		g.text(f.key)
		g.value(f.value)
	}
	offset := uint64(0)
	for _, t := range tensors {
		g.tensorInfo(t, offset)
		offset += aligned(t.bytes())
	}
	g.pad()
	random := s.Seed
	for _, t := range tensors {
		g.tensorData(t, &random)
		g.pad()
	}
	if g.err == nil {
		g.err = g.w.Flush()
	}
	if g.err != nil {
		return fmt.Errorf("write a model: %w", g.err)
	}
	return nil
}

// The types of GGUF, version 3 (ggml/docs/gguf.md of llama.cpp).
const (
	ggufU32, ggufI32, ggufF32, ggufBool, ggufText, ggufArray = 4, 5, 6, 7, 8, 9

	ggmlF32, ggmlF16 = 0, 1
	ggufAlignment    = 32
)

// gguf writes values until one fails.
type gguf struct {
	w       *bufio.Writer
	written uint64
	err     error
}

func (g *gguf) raw(b []byte) {
	if g.err == nil {
		_, g.err = g.w.Write(b)
		g.written += uint64(len(b))
	}
}

func (g *gguf) u32(v uint32) { g.raw(binary.LittleEndian.AppendUint32(nil, v)) }
func (g *gguf) u64(v uint64) { g.raw(binary.LittleEndian.AppendUint64(nil, v)) }

func (g *gguf) text(s string) {
	g.u64(uint64(len(s)))
	g.raw([]byte(s))
}

func (g *gguf) pad() { g.raw(make([]byte, aligned(g.written)-g.written)) }

func aligned(n uint64) uint64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }

// value writes a metadata value with its type.
func (g *gguf) value(v any) {
	switch v := v.(type) {
	case uint32:
		g.u32(ggufU32)
		g.u32(v)
	case float32:
		g.u32(ggufF32)
		g.u32(math.Float32bits(v))
	case bool:
		g.u32(ggufBool)
		b := byte(0)
		if v {
			b = 1
		}
		g.raw([]byte{b})
	case string:
		g.u32(ggufText)
		g.text(v)
	case []string:
		g.array(ggufText, len(v))
		for _, s := range v {
			g.text(s)
		}
	case []float32:
		g.array(ggufF32, len(v))
		for _, f := range v {
			g.u32(math.Float32bits(f))
		}
	case []int32:
		g.array(ggufI32, len(v))
		for _, i := range v {
			g.u32(uint32(i))
		}
	default:
		g.err = fmt.Errorf("no GGUF type for %T", v)
	}
}

func (g *gguf) array(kind uint32, n int) {
	g.u32(ggufArray)
	g.u32(kind)
	g.u64(uint64(n))
}

func (g *gguf) tensorInfo(t tensor, offset uint64) {
	g.text(t.name)
	if t.rows == 0 {
		g.u32(1)
		g.u64(uint64(t.cols))
		g.u32(ggmlF32)
	} else {
		g.u32(2)
		g.u64(uint64(t.cols))
		g.u64(uint64(t.rows))
		g.u32(ggmlF16)
	}
	g.u64(offset)
}

// tensorData writes ones, or uniform random weights of mean 0 and standard
// deviation gain/√cols.
func (g *gguf) tensorData(t tensor, random *uint64) {
	if t.rows == 0 {
		for range t.cols {
			g.u32(math.Float32bits(1))
		}
		return
	}
	width := float32(t.gain * math.Sqrt(3) / math.Sqrt(float64(t.cols)))
	row := make([]byte, 0, 2*t.cols)
	for range t.rows {
		row = row[:0]
		for range t.cols {
			unit := float32(int64(splitmix(random))>>40) * (1.0 / (1 << 23)) // −1 to 1
			row = binary.LittleEndian.AppendUint16(row, half(unit*width))
		}
		g.raw(row)
	}
}

// splitmix is SplitMix64 (Steele, Lea, Flood 2014).
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// half is f as an IEEE 754 binary16, rounded to nearest even; |f| below 65,504.
func half(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, exponent, fraction := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-127+15, bits&0x7fffff
	shift := 13
	if exponent <= 0 {
		if exponent < -10 {
			return sign
		}
		fraction |= 0x800000 // subnormal: the leading one is written out
		shift += 1 - exponent
		exponent = 0
	}
	rounded := fraction >> shift
	rest, middle := fraction&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > middle || (rest == middle && rounded&1 == 1) {
		rounded++ // may carry into the exponent, which is right
	}
	return sign | uint16(uint32(exponent)<<10+rounded)
}
