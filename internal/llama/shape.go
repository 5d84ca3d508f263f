package llama

import (
	"fmt"
	"math"
)

type field struct {
	key   string
	value any
}

// fields are the metadata that llama.cpp wants of a llama model. Prompts come as
// token ids, so nothing is added to them.
func (s Shape) fields() []field {
	names, scores, kinds := s.vocabulary()
	u := func(n int) uint32 { return uint32(n) }
	return []field{
		{"general.architecture", "llama"},
		{"general.name", fmt.Sprintf("kvwhatif-random-%dx%d", s.Layers, s.Dim)},
		{"general.file_type", uint32(1)}, // mostly f16
		{"llama.context_length", u(s.Context)},
		{"llama.embedding_length", u(s.Dim)},
		{"llama.block_count", u(s.Layers)},
		{"llama.feed_forward_length", u(s.FFN)},
		{"llama.attention.head_count", u(s.Heads)},
		{"llama.attention.head_count_kv", u(s.KVHeads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", u(s.Dim / s.Heads)},
		{"llama.rope.freq_base", float32(500000)},
		{"llama.vocab_size", u(s.Vocab)},
		{"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.pre", "default"},
		{"tokenizer.ggml.tokens", names},
		{"tokenizer.ggml.scores", scores},
		{"tokenizer.ggml.token_type", kinds},
		{"tokenizer.ggml.unknown_token_id", uint32(0)},
		{"tokenizer.ggml.bos_token_id", uint32(1)},
		{"tokenizer.ggml.eos_token_id", uint32(2)},
		{"tokenizer.ggml.add_bos_token", false},
		{"tokenizer.ggml.add_space_prefix", false},
	}
}

// vocabulary is that of a SentencePiece model: three special tokens, the bytes,
// and plain words, so that every id prints.
func (s Shape) vocabulary() (names []string, scores []float32, kinds []int32) {
	const normal, unknown, control, raw = 1, 2, 3, 6
	add := func(name string, score float32, kind int32) {
		names, scores, kinds = append(names, name), append(scores, score), append(kinds, kind)
	}
	add("<unk>", 0, unknown)
	add("<s>", 0, control)
	add("</s>", 0, control)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 0, raw)
	}
	for i := range s.Vocab - FirstToken {
		add(fmt.Sprintf("t%d.", i), -float32(i+1), normal)
	}
	return names, scores, kinds
}

// tensor is a matrix of f16, or a vector of f32 ones where rows is 0.
type tensor struct {
	name       string
	rows, cols int
	gain       float64
}

func (t tensor) bytes() uint64 {
	if t.rows == 0 {
		return 4 * uint64(t.cols)
	}
	return 2 * uint64(t.rows) * uint64(t.cols)
}

func (s Shape) tensors() []tensor {
	kv := s.Dim / s.Heads * s.KVHeads
	out := []tensor{{"token_embd.weight", s.Vocab, s.Dim, math.Sqrt(float64(s.Dim))}}
	for i := range s.Layers {
		block := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		out = append(out,
			tensor{block("attn_norm"), 0, s.Dim, 1},
			// Queries and keys are large, so that attention picks out tokens and the
			// output depends on the prefix.
			tensor{block("attn_q"), s.Dim, s.Dim, 2},
			tensor{block("attn_k"), kv, s.Dim, 2},
			tensor{block("attn_v"), kv, s.Dim, 1},
			tensor{block("attn_output"), s.Dim, s.Dim, 1},
			tensor{block("ffn_norm"), 0, s.Dim, 1},
			tensor{block("ffn_gate"), s.FFN, s.Dim, 1},
			tensor{block("ffn_up"), s.FFN, s.Dim, 1},
			tensor{block("ffn_down"), s.Dim, s.FFN, 1},
		)
	}
	return append(out, tensor{"output_norm.weight", 0, s.Dim, 1}, tensor{"output.weight", s.Vocab, s.Dim, 1})
}
