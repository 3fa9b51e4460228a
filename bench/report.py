#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns what the benchmarks wrote into a table, and into plots where matplotlib is installed.

    policies_bench --benchmark_filter=... --benchmark_out=policies.json
    ops_bench --benchmark_filter=... --benchmark_out=ops.json
    report.py policies.json ops.json [--plots FOLDER]

Prints a table in Markdown for each number of threads: milliseconds (bound_ratio), medians of repetitions if there were any.
With one thread times are processor time, with more time on the wall, as the ratios are. Into FOLDER:

    rows.png     time of each policy against the rows of a head, and its bound, dashed
    stages.png   score, selection and compaction of the largest size that has all three
    threads.png  how many times faster each policy is with each number of threads than with one
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import statistics
import sys

MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclasses.dataclass(frozen=True)
class Case:
    """What a benchmark's name says."""
    kind: str  # policy, op
    label: str  # "Jacap, pooled=false"
    element: str
    rows: int
    heads: int
    dim: int  # 0: scores only
    group: int
    threads: int

    @property
    def size(self):
        rows = f"{self.rows // 1024}k" if self.rows % 1024 == 0 else str(self.rows)
        return f"{self.heads} x {rows}" + (f" x {self.dim}" if self.dim else "")


@dataclasses.dataclass(frozen=True)
class Time:
    milliseconds: float
    bound_ratio: float


def parse_name(name):
    """The case of "policy/Jacap,pooled=false/cpu/float/N:512/d:64/heads:2/group:4/threads:1"; None for rates."""
    parts = name.split("/")
    if parts[0] not in ("policy", "op") or len(parts) < 5:
        return None
    numbers = dict(part.split(":") for part in parts[4:])
    label, _, parameters = parts[1].partition(",")
    if parameters:
        label += ", " + parameters.replace(",", ", ")
    return Case(parts[0], label, parts[3], int(numbers["N"]), int(numbers["heads"]), int(numbers.get("d", 0)),
                int(numbers.get("group", 1)), int(numbers.get("threads", 1)))


def read_times(reports):
    """Medians by case, in the order of the reports."""
    runs = collections.defaultdict(list)
    medians = {}
    for report in reports:
        for run in report["benchmarks"]:
            case = parse_name(run["run_name"])
            if case is None or run.get("error_occurred"):
                continue
            clock = "cpu_time" if case.threads == 1 else "real_time"
            time = Time(run[clock] * MILLISECONDS[run["time_unit"]], run["bound_ratio"])
            if run["run_type"] == "iteration":
                runs[case].append(time)
            elif run["aggregate_name"] == "median":
                medians[case] = time
                runs.setdefault(case, [])
    return {case: medians.get(case) or Time(statistics.median(time.milliseconds for time in times),
                                            statistics.median(time.bound_ratio for time in times))
            for case, times in runs.items()}


def table(times, kind, threads):
    """Markdown: a line for each policy or operation, a column for each size and element type; "" without cases."""
    cases = [case for case in times if (case.kind, case.threads) == (kind, threads)]
    if not cases:
        return ""
    columns = list(dict.fromkeys((case.size, case.element) for case in cases))
    cells = {(case.label, case.size, case.element): times[case] for case in cases}
    lines = ["| " + " | ".join([kind, *(f"{size} {element}" for size, element in columns)]) + " |",
             "|" + "---|" * (len(columns) + 1)]
    for label in dict.fromkeys(case.label for case in cases):
        found = [cells.get((label, *column)) for column in columns]
        lines.append("| " + " | ".join([label, *(f"{time.milliseconds:.3g} ({time.bound_ratio:.2f})" if time else ""
                                                 for time in found)]) + " |")
    return "\n".join(lines)


def tables(times):
    """All tables under headings."""
    parts = []
    for kind, title in (("policy", "Policies"), ("op", "Operations")):
        for threads in sorted({case.threads for case in times}):
            if text := table(times, kind, threads):
                parts.append(f"{title}, {threads} thread{'s' if threads > 1 else ''}, milliseconds (bound_ratio):\n\n{text}")
    return "\n\n".join(parts)


def lines_over_rows(times):
    """{label: [(rows, time)]} with one thread in float, for heads as wide as those of the most rows."""
    cases = [case for case in times if (case.kind, case.element, case.threads) == ("policy", "float", 1)]
    if not cases:
        return {}
    widest = max(cases, key=lambda case: case.rows)
    lines = collections.defaultdict(list)
    for case in sorted(cases, key=lambda case: case.rows):
        if (case.heads, case.dim) == (widest.heads, widest.dim):
            lines[case.label].append((case.rows, times[case]))
    return dict(lines)


def stages(times):
    """(size, {policy: (score, selection, compaction)}) of the largest size whose three steps were timed, or None."""
    single = [case for case in times if (case.element, case.threads) == ("float", 1)]
    steps = {(case.label, case.heads, case.rows): times[case].milliseconds for case in single if case.kind == "op"}
    for largest in sorted((case for case in single if case.kind == "policy"), key=lambda c: -c.heads * c.rows * c.dim):
        selection = steps.get(("select_top, random", largest.heads, largest.rows))
        compaction = steps.get(("compact_rows", largest.heads, largest.rows))
        if selection is not None and compaction is not None:
            # Keys and values are moved by one call each.
            return largest.size, {case.label: (times[case].milliseconds, selection, 2 * compaction) for case in single
                                  if case.kind == "policy" and case.size == largest.size}
    return None


def speedups(times):
    """{label: [(threads, speedup)]} of the largest size in float of each policy."""
    result = {}
    for case in sorted(times, key=lambda case: (case.heads * case.rows * case.dim, case.threads)):
        if (case.kind, case.element) != ("policy", "float"):
            continue
        single = times.get(dataclasses.replace(case, threads=1))
        if case.threads == 1:
            result[case.label] = [(1, 1.0)]
        elif single:
            result[case.label].append((case.threads, single.milliseconds / times[case].milliseconds))
    return {label: points for label, points in result.items() if len(points) > 1}


def draw_rows(plt, lines, path):
    figure, axis = plt.subplots(figsize=(9, 7))
    axis.set_prop_cycle(color=plt.get_cmap("tab20").colors)
    for label, points in lines.items():
        rows = [count for count, _ in points]
        line, = axis.plot(rows, [time.milliseconds for _, time in points], marker="o", markersize=3, label=label)
        axis.plot(rows, [time.milliseconds / time.bound_ratio for _, time in points], "--", linewidth=0.8,
                  color=line.get_color())
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlabel("rows of each head")
    axis.set_ylabel("ms; dashed: bound")
    axis.legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_stages(plt, size, parts, path):
    figure, axis = plt.subplots(figsize=(9, 0.3 * len(parts) + 1.5))
    left = [0.0] * len(parts)
    for index, name in enumerate(("score", "selection", "compaction")):
        widths = [times[index] for times in parts.values()]
        axis.barh(list(parts), widths, left=left, label=name)
        left = [start + width for start, width in zip(left, widths)]
    axis.invert_yaxis()
    axis.set_xlabel(f"ms, {size} float, one thread")
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_threads(plt, lines, path):
    figure, axis = plt.subplots(figsize=(9, 6))
    most = max(threads for points in lines.values() for threads, _ in points)
    axis.set_prop_cycle(color=plt.get_cmap("tab20").colors)
    axis.plot([1, most], [1, most], "--", color="grey", linewidth=0.8)
    for label, points in lines.items():
        axis.plot(*zip(*points), marker="o", markersize=3, label=label)
    axis.set_xlabel("threads")
    axis.set_ylabel("times faster than one thread")
    axis.legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw(times, folder):
    try:
        import matplotlib
    except ImportError:
        sys.exit("matplotlib is missing: install python3-matplotlib, or leave --plots out")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    if lines := lines_over_rows(times):
        draw_rows(plt, lines, folder / "rows.png")
    if found := stages(times):
        draw_stages(plt, *found, folder / "stages.png")
    if lines := speedups(times):
        draw_threads(plt, lines, folder / "threads.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=pathlib.Path, nargs="+", help="JSON from --benchmark_out")
    parser.add_argument("--plots", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    reports = [json.loads(path.read_text()) for path in arguments.reports]
    times = read_times(reports)
    if not times:
        sys.exit("no policy and no operation was measured")
    context = reports[0]["context"]
    print(f"{context['date'][:10]}, {context['num_cpus']} cores, {context.get('instruction_set', 'unknown instruction set')}\n")
    print(tables(times))
    if arguments.plots:
        draw(times, arguments.plots)


if __name__ == "__main__":
    main()
