"""Writes a tiny Qwen2 with a tokenizer of 500 words, for `vllm serve
--load-format dummy`: the weights are random, made when it is loaded."""

import json
import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CONTEXT = 16384

out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)

words = Tokenizer(models.BPE())
words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
words.decoder = decoders.ByteLevel()
words.train_from_iterator(
    ["prefix cache hit prefix cache miss queue prefill decode token span trace request response model server"],
    trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)
words.save(str(out / "tokenizer.json"))

FILES = {
    "config.json": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "use_cache": True,
        "use_sliding_window": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "bfloat16",
    },
    "generation_config.json": {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0},
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    },
}
for name, content in FILES.items():
    (out / name).write_text(json.dumps(content, indent=1))
