#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times eviction by kvpress, the reference in Python, and by this library: the same tensors, the same number of threads.

    python3 -m venv build/reference && build/reference/bin/pip install torch kvpress
    cmake --preset bench && cmake --build --preset bench --target compare_kvevict
    build/reference/bin/python bench/compare_kvpress.py build/bench/bench/compare_kvevict

One layer of random keys and values, fp32; half of the rows is kept. Both sides start at the queries of the context, take
statistics of them where a policy wants any, score, select and copy what is kept into a cache of its own. The projection from
hidden states to queries, which the reference makes anew, is left out. Runs of both alternate; medians are printed:

    wall      milliseconds on the wall, reference / library
    processor milliseconds of processor time, all threads together, which other programs do not lengthen by taking turns
    same      rows that both keep, of those that the library keeps

Jacap has no counterpart: it is held against the reference's CapKV.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

# A thread pool that goes on spinning after its work would take time from the other side.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from kvpress import CapPress, ExpectedAttentionPress, KeyDiffPress, KnormPress, SnapKVPress
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, rotate_half

WINDOW = 64
# (name, press, what compare_kvevict is asked, whether both should keep the same rows)
CASES = [
    ("KNorm", KnormPress, "KNorm", True),
    ("KeyDiff", KeyDiffPress, "KeyDiff", True),
    ("SnapKV", SnapKVPress, "SnapKV", True),
    ("ExpectedAttention", ExpectedAttentionPress, "ExpectedAttention", True),
    ("CapKV", CapPress, "CapKV preset=reference", True),
    ("CapKV, pooled", CapPress, "CapKV preset=reference pooled=true", False),
    ("Jacap", CapPress, "Jacap evidence=mean", False),
]


class Layer:
    """Tensors of one layer, and what kvpress asks of its attention module."""

    def __init__(self, options):
        generator = torch.Generator().manual_seed(options.seed)
        shape = (1, options.heads, options.rows, options.dim)
        self.keys = torch.randn(shape, generator=generator)
        self.values = torch.randn(shape, generator=generator)
        query_heads = options.heads * options.group
        self.queries = torch.randn((1, query_heads, options.queries, options.dim), generator=generator)
        self.window = min(options.queries, WINDOW)
        config = LlamaConfig(hidden_size=query_heads * options.dim, num_attention_heads=query_heads,
                             num_key_value_heads=options.heads, head_dim=options.dim,
                             max_position_embeddings=2 * options.rows)
        rope = LlamaRotaryEmbedding(config)
        self.position_embeddings = rope(self.keys, torch.arange(options.rows).unsqueeze(0))
        # Hidden states that are the queries already.
        self.module = types.SimpleNamespace(config=config, head_dim=options.dim, rotary_emb=rope,
                                            q_proj=lambda hidden: hidden)
        self.hidden = self.queries.transpose(1, 2).reshape(1, options.queries, query_heads * options.dim)

    def write(self, folder):
        cos, sin = (table[:, -self.window:].unsqueeze(1) for table in self.position_embeddings)
        last = self.queries[:, :, -self.window:]
        arrays = {"keys": self.keys, "values": self.values, "queries": self.queries,
                  "window": last * cos + rotate_half(last) * sin}
        for name, array in arrays.items():
            array.numpy().astype("<f4").tofile(folder / name)

    def compress(self, press):
        """Milliseconds on the wall and of processor time of one call."""
        start, start_processor = time.perf_counter(), time.process_time()
        with torch.no_grad():
            press.compress(self.module, self.hidden, self.keys, self.values, None,
                           {"position_embeddings": self.position_embeddings})
        return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - start_processor)

    def kept(self, press):
        """The rows that the reference keeps, a set for each head."""
        with torch.no_grad():
            scores = press.score(self.module, self.hidden, self.keys, self.values, None,
                                 {"position_embeddings": self.position_embeddings})
        kept = scores.topk(self.keys.shape[2] // 2, dim=-1).indices[0]
        return [set(head.tolist()) for head in kept]


class Library:
    """A running compare_kvevict."""

    def __init__(self, program, folder, options):
        sizes = (options.heads, options.rows, options.dim, options.group, options.queries, options.threads)
        self.kept_file = folder / "kept"
        self.heads = options.heads
        self.process = subprocess.Popen([program, str(folder), *map(str, sizes)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def evict(self, request):
        """Milliseconds of query statistics, score, selection, compaction, and of processor time of them all."""
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args[0]} ended while asked for {request}")
        return [float(word) for word in answer.split()]

    def kept(self):
        return [set(head.tolist()) for head in np.fromfile(self.kept_file, "<i4").reshape(self.heads, -1)]


def compare(layer, library, press, request, options):
    """Medians of the runs: reference wall and processor time, then the library's numbers."""
    runs = []
    for run in range(options.repeat + 1):
        reference = layer.compress(press)
        time.sleep(options.pause)
        runs.append([*reference, *library.evict(request)])
    return [statistics.median(column) for column in zip(*runs[1:])]  # the first warms up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built compare_kvevict")
    parser.add_argument("--heads", type=int, default=8, help="KV heads")
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--group", type=int, default=4, help="query heads of each KV head")
    parser.add_argument("--queries", type=int, help="of the context, for each query head; all rows unless given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5, help="runs that count")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds before each run of the library")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="names of cases, with commas between")
    options = parser.parse_args()
    options.queries = options.queries or options.rows
    if not WINDOW < options.queries <= options.rows:
        parser.error(f"--queries must be above {WINDOW} and at most --rows")
    cases = [case for case in CASES if options.only is None or case[0] in options.only.split(",")]
    if not cases:
        parser.error("--only names no case: " + "; ".join(case[0] for case in CASES))

    torch.set_num_threads(options.threads)
    layer = Layer(options)
    print(f"{options.heads} x {options.rows} x {options.dim}, groups of {options.group}, {options.queries} queries a head,"
          f" {options.threads} threads, torch {torch.__version__}, median of {options.repeat}")
    print("| policy | reference, wall | library, wall | ratio | reference, processor | library, processor | ratio "
          "| statistics | score | select | copy | same |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layer.write(folder)
        library = Library(options.program, folder, options)
        for label, press_class, request, comparable in cases:
            press = press_class(compression_ratio=0.5)
            wall, processor, *stages, library_processor = compare(layer, library, press, request, options)
            library_wall = sum(stages)
            same = "-"
            if comparable:
                pairs = list(zip(layer.kept(press), library.kept()))
                same = f"{sum(len(a & b) for a, b in pairs) / sum(len(b) for _, b in pairs):.4f}"
            print(f"| {label} | {wall:.1f} | {library_wall:.1f} | {wall / library_wall:.1f} | {processor:.1f} "
                  f"| {library_processor:.1f} | {processor / library_processor:.1f} | "
                  + " | ".join(f"{stage:.2f}" for stage in stages) + f" | {same} |", flush=True)
        library.process.stdin.close()
        library.process.wait()


if __name__ == "__main__":
    main()
