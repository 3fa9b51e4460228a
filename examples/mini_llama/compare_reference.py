#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares mini_llama with transformers on the same GGUF file: token ids and next-token logits.

    pip install torch transformers accelerate gguf
    compare_reference.py PROBE MODEL.gguf [f32|f16]

PROBE is the built mini_llama_probe. Exits with 1 if a check misses its bound.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = [
    "The quick brown fox jumps over the lazy dog. It's what they've done; we'll see, I'd say!",
    "def area(r):\n\tif r < 0:\n\t\traise ValueError('r')\n    return 3.14159 * r**2  # approx\n\n\n",
    "In 1984, 12,345.678 items cost $0.99 each (50% off) on 2024-02-29 at 07:05.  x  7   y\n 8",
    "... ?! -- \"quoted\" [a]{b}(c) <d> a_b a-b a/b\\c #tag @name & * ^ ~ ` |  \t \r\n end ",
    "Caf\u00e9 na\u00efve r\u00e9sum\u00e9, stra\u00dfe, \u00c5ngstr\u00f6m, \u010desk\u00fd, "
    "\u03b1\u03b2\u03b3 \u041f\u0440\u0438\u0432\u0435\u0442, \u4f60\u597d\uff0c\u4e16\u754c\u3002 "
    "\u3053\u3093\u306b\u3061\u306f \u0645\u0631\u062d\u0628\u0627 \u201cquotes\u201d \u2014 "
    "1\u00bd \u00b2 \u20ac5 \u2026 \U0001f600\U0001f44d\U0001f3fd e\u0301 \u00a0nbsp\u3000wide",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<|endoftext|> <|not_special|>",
    "", " ", "\n\n", "a", "  a", "'s 's'S 'LL i'm I'M", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]
LONG_TEXT = """The lighthouse at Carrow Point was built in 1862, after three ships were lost in one winter.
Its keeper, Ada Merrin, wrote down the weather every evening for 31 years: wind, cloud, the height of
the sea, and now and then what she had seen pass. On 4 March 1871 she noted a whale; on 9 June 1880,
"nothing, and glad of it". The lamp burned colza oil at first, later paraffin, and needed trimming
every four hours, so that a keeper's sleep came in pieces. When the line was electrified in 1934 the
last keeper left the books behind. They are kept in the harbour office now, in a cupboard that is not
locked, and anyone who asks may read them. A school class once drew all her temperatures on a strip
of paper that reached twice around the room; the warmest day was the one with the whale.
"""


def run_probe(probe, model, text, row_type=None):
    with tempfile.TemporaryDirectory() as folder:
        source, logits = os.path.join(folder, "text"), os.path.join(folder, "logits")
        with open(source, "wb") as file:
            file.write(text.encode())
        command = [probe, model, source] + ([logits, row_type] if row_type else [])
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        tokens = [int(token) for token in printed.split()]
        if row_type is None:
            return tokens
        return tokens, np.fromfile(logits, np.float32).reshape(len(tokens), -1)


def main():
    probe, path = sys.argv[1:3]
    row_type = sys.argv[3] if len(sys.argv) > 3 else "f32"
    location = {"pretrained_model_name_or_path": os.path.dirname(os.path.abspath(path)),
                "gguf_file": os.path.basename(path)}
    tokenizer = AutoTokenizer.from_pretrained(**location)
    # The conversion from GGUF drops the first of the two steps of this pre-tokenizer.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    failed = False
    for text in TEXTS + [LONG_TEXT]:
        ours, theirs = run_probe(probe, path, text), tokenizer.encode(text, add_special_tokens=False)
        if ours != theirs:
            failed = True
            print(f"tokens differ for {text!r}\n  ours   {ours}\n  theirs {theirs}")
    print(f"token ids: {len(TEXTS) + 1} texts, {'some differ' if failed else 'all equal'}")

    tokens, ours = run_probe(probe, path, LONG_TEXT, row_type)
    model = AutoModelForCausalLM.from_pretrained(**location, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0].double()
    ours = torch.from_numpy(ours).double()
    p, q = theirs.log_softmax(-1), ours.log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1)
    difference = (ours - theirs).abs().max().item()
    agreement = (ours.argmax(-1) == theirs.argmax(-1)).double().mean().item()
    print(f"logits, {row_type} rows, {len(tokens)} tokens: max abs difference {difference:.2e} "
          f"(logits within {theirs.min():.1f} .. {theirs.max():.1f}), mean KL {kl.mean():.2e}, "
          f"max KL {kl.max():.2e}, top-1 agreement {agreement:.1%}")
    # Rounding alone: fp32 in another order of summation, and 11-bit keys and values.
    bound = {"f32": 1e-3, "f16": 1e-1}[row_type]
    return int(failed or difference > bound)


if __name__ == "__main__":
    sys.exit(main())
