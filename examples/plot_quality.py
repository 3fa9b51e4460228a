#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what kvevict_evaluate measured. Needs matplotlib.

    plot_quality.py RESULTS.json FOLDER [--queries agnostic] [--protect 4+32] [--all] [--context NAME] [--ratio R]

Writes into FOLDER, for uniform budgets without a refit, or --all:

    curves.png    error and KL against the ratio, geometric means over contexts, one line a policy, budget and refit
    needles.png   log-probability of answers against the full cache, by depth and ratio, one map a policy
    kept.png      positions that each policy keeps in the first KV head of the middle layer, for one context and ratio
"""

import argparse
import collections
import json
import math
import pathlib
import sys

LEAST_KL = 1e-6
DEPTH_BINS = 5


def label_of(cell):
    parts = [cell["policy"]]
    parts += [cell["budget"]] if cell["budget"] != "uniform" else []
    parts += [cell["refit"]] if cell["refit"] != "none" else []
    return ", ".join(parts)


def geometric_mean(values):
    return math.exp(sum(math.log(max(value, LEAST_KL)) for value in values) / len(values))


def draw_curves(plt, cells, path):
    lines = collections.defaultdict(lambda: collections.defaultdict(list))
    for cell in cells:
        lines[label_of(cell)][cell["evict_ratio"]].append(cell)
    figure, axes = plt.subplots(1, 2, figsize=(14, 6))
    for label, by_ratio in lines.items():
        ratios = sorted(by_ratio)
        for axis, quantity in zip(axes, ("error", "mean_kl")):
            means = [geometric_mean([cell[quantity] for cell in by_ratio[ratio]]) for ratio in ratios]
            axis.plot(ratios, means, marker="o", markersize=3, label=label)
    for axis, name in zip(axes, ("error of attention outputs", "mean KL, nats")):
        axis.set_xlabel("evicted")
        axis.set_ylabel(name)
        axis.set_yscale("log")
    axes[1].legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def answer_losses(cells, full):
    """(label, ratio, depth, loss) of every answer; loss is what it lost of its log-probability."""
    for cell in cells:
        whole = full.get((cell["context"], cell["queries"]))
        if whole is None:
            continue
        for depth, after, before in zip(cell["answer_depth"], cell["answer_log_probability"],
                                        whole["answer_log_probability"]):
            yield label_of(cell), cell["evict_ratio"], depth, after - before


def draw_needles(plt, cells, full, path):
    maps = collections.defaultdict(lambda: collections.defaultdict(list))
    ratios = set()
    for label, ratio, depth, loss in answer_losses(cells, full):
        ratios.add(ratio)
        maps[label][min(int(depth * DEPTH_BINS), DEPTH_BINS - 1), ratio].append(loss)
    if not maps:
        return False
    ratios = sorted(ratios)
    columns = min(len(maps), 5)
    rows = -(-len(maps) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3 * columns, 2.6 * rows), squeeze=False,
                                layout="constrained")
    for axis in axes.flat[len(maps):]:
        axis.axis("off")
    for axis, (label, values) in zip(axes.flat, maps.items()):
        grid = [[sum(values[depth, ratio]) / len(values[depth, ratio]) if values[depth, ratio] else math.nan
                 for ratio in ratios] for depth in range(DEPTH_BINS)]
        image = axis.imshow(grid, vmin=-3, vmax=0, cmap="viridis", aspect="auto")
        axis.set_title(label, fontsize=7)
        axis.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios], fontsize=6)
        axis.set_yticks(range(DEPTH_BINS), [f"{(bin + 0.5) / DEPTH_BINS:.1f}" for bin in range(DEPTH_BINS)], fontsize=6)
    figure.supxlabel("evicted")
    figure.supylabel("depth of the fact")
    figure.colorbar(image, ax=axes, label="nats a token, against the full cache")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def positions_of(ranges):
    for part in ranges.split(";"):
        ends = [int(end) for end in part.split("-")]
        yield from range(ends[0], ends[-1] + 1)


def draw_kept(plt, cells, context, ratio, path):
    # A refit keeps the same rows.
    chosen = [cell for cell in cells if cell["context"] == context and cell["evict_ratio"] == ratio
              and cell["refit"] == "none" and cell["kept"]]
    if not chosen:
        return False
    figure, axis = plt.subplots(figsize=(14, 0.3 * len(chosen) + 1.2))
    for row, cell in enumerate(chosen):
        axis.eventplot(list(positions_of(cell["kept"])), lineoffsets=row, linelengths=0.8, linewidths=0.4)
    axis.set_yticks(range(len(chosen)), [label_of(cell) for cell in chosen], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("position")
    axis.set_title(f"kept rows, {context}, {ratio:g} evicted", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--queries", default="agnostic", choices=("agnostic", "aware"))
    parser.add_argument("--protect", default="4+32", metavar="S+R")
    parser.add_argument("--context", help="for kept.png (default: the first)")
    parser.add_argument("--ratio", type=float, help="for kept.png (default: the smallest)")
    parser.add_argument("--all", action="store_true", help="global budgets and refits too")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("matplotlib is missing: install python3-matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    everything = json.loads(arguments.results.read_text())
    full = {(cell["context"], cell["queries"]): cell for cell in everything if cell["policy"] == "full"}
    cells = [cell for cell in everything if cell["policy"] != "full" and cell["queries"] == arguments.queries
             and f"{cell['sinks']}+{cell['recent']}" == arguments.protect
             and (arguments.all or (cell["budget"], cell["refit"]) == ("uniform", "none"))]
    if not cells:
        sys.exit(f"{arguments.results}: nothing was measured with these settings")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    draw_curves(plt, cells, arguments.folder / "curves.png")
    if not draw_needles(plt, cells, full, arguments.folder / "needles.png"):
        print("no answers were measured: no needles.png")
    context = arguments.context or cells[0]["context"]
    ratio = min(cell["evict_ratio"] for cell in cells) if arguments.ratio is None else arguments.ratio
    if not draw_kept(plt, cells, context, ratio, arguments.folder / "kept.png"):
        print(f"nothing was kept of {context} at {ratio:g}: no kept.png")


if __name__ == "__main__":
    main()
