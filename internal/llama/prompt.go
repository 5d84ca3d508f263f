package llama

import "hash/fnv"

// Vocab is the range of token ids that prompts are made of: First ≤ id < End.
type Vocab struct{ First, End int32 }

// DefaultVocab is the plain tokens of DefaultShape's model.
func DefaultVocab() Vocab { return Vocab{First: FirstToken, End: int32(DefaultShape().Vocab)} }

// Prefix makes the first n tokens of a prompt from the hashes of its blocks of
// size tokens each: equal blocks give equal tokens. Tokens beyond the last block
// go on from its hash; with no block they come from 0.
func (v Vocab) Prefix(blocks []int64, size, n int) []int32 {
	out := make([]int32, 0, n)
	for i := 0; len(out) < n; i++ {
		var state uint64
		take := n - len(out)
		if len(blocks) > 0 {
			state = uint64(blocks[min(i, len(blocks)-1)])
		}
		if size > 0 && i < len(blocks)-1 {
			take = min(size, take)
		}
		out = v.fill(out, state, take)
	}
	return out
}

// Suffix makes n tokens that nobody holds, from the request's id and a salt that
// is its own.
func (v Vocab) Suffix(id, salt string, n int) []int32 {
	h := fnv.New64a()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write([]byte(salt))
	return v.fill(make([]int32, 0, n), h.Sum64(), n)
}

func (v Vocab) fill(out []int32, state uint64, n int) []int32 {
	for range n {
		out = append(out, v.First+int32(splitmix(&state)%uint64(v.End-v.First)))
	}
	return out
}
