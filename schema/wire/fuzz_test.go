package wire

import (
	"testing"

	"github.com/kvwhatif/kvwhatif/schema"
)

// What decodes, encodes to something that decodes to the same.
func FuzzDecodePart(f *testing.F) {
	for _, p := range examples() {
		f.Add(AppendPart(nil, p))
	}
	f.Add(AppendPart(nil, randomPart(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second schema.Part
		if DecodePart(b, &first) != nil {
			return
		}
		again := AppendPart(nil, &first)
		if err := DecodePart(again, &second); err != nil {
			t.Fatal(err)
		}
		same(t, first, second)
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(AppendBatch(nil, randomPart(1), randomPart(2)))
	f.Add([]byte{8, 2})
	f.Fuzz(func(t *testing.T, msg []byte) {
		total := 0
		for frame, err := range Frames(msg) {
			if err == nil {
				total += len(frame)
			}
		}
		if total > len(msg) {
			t.Fatalf("%d bytes of frames out of %d", total, len(msg))
		}
	})
}

func FuzzDecodeDeadLetter(f *testing.F) {
	l := DeadLetter{Reason: "r", Source: SourceOTLP, Topic: "t", Partition: 1, Offset: 2, Index: 3, AtNanos: 4, Adapter: "a"}
	l.SetRecord([]byte("record"))
	f.Add(AppendDeadLetter(nil, &l))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second DeadLetter
		if DecodeDeadLetter(b, &first) != nil {
			return
		}
		if err := DecodeDeadLetter(AppendDeadLetter(nil, &first), &second); err != nil {
			t.Fatal(err)
		}
		same(t, first, second)
	})
}

func BenchmarkPart(b *testing.B) {
	p := examples()["contract"]
	p.Decision.Candidates = append(p.Decision.Candidates, p.Decision.Candidates[0])
	enc := AppendPart(nil, p)
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			buf = AppendPart(buf[:0], p)
		}
		b.SetBytes(int64(len(enc)))
		b.ReportAllocs()
	})
	b.Run("decode", func(b *testing.B) {
		var d Decoder
		var got schema.Part
		for b.Loop() {
			if err := d.Part(enc, &got); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(enc)))
		b.ReportAllocs()
	})
}
