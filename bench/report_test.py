#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What report.py reads and prints; needs no matplotlib."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import report

SIZE = "N:{}/d:64/heads:2/group:4/threads:{}"


def run(name, cpu, real, ratio, unit="ms", **more):
    return {"run_name": name, "run_type": "iteration", "cpu_time": cpu, "real_time": real, "time_unit": unit,
            "bound_ratio": ratio, **more}


def policy(label, rows, threads, cpu, real, ratio, element="float", **more):
    return run(f"policy/{label}/cpu/{element}/" + SIZE.format(rows, threads), cpu, real, ratio, **more)


def times_of(*runs):
    return report.read_times([{"benchmarks": list(runs)}])


class Report(unittest.TestCase):
    def test_names(self):
        case = report.parse_name("policy/Jacap,pooled=false/cpu/half/N:2048/d:64/heads:90/group:3/threads:2")
        self.assertEqual(case, report.Case("policy", "Jacap, pooled=false", "half", 2048, 90, 64, 3, 2))
        self.assertEqual(case.size, "90 x 2k x 64")
        scores = report.parse_name("op/select_top,equal/cpu/float/N:1000/heads:1/group:1/threads:1")
        self.assertEqual((scores.kind, scores.size), ("op", "1 x 1000"))
        self.assertIsNone(report.parse_name("bound/read/N:512/d:64/heads:2/group:4/threads:1"))

    def test_medians_of_repetitions(self):
        times = times_of(*(policy("KNorm", 512, 1, cpu, 9.0, ratio) for cpu, ratio in ((3.0, 1.5), (1.0, 1.1), (2.0, 9.0))))
        self.assertEqual(list(times.values()), [report.Time(2.0, 1.5)])

    def test_aggregates_come_before_single_runs(self):
        median = policy("KNorm", 512, 1, 7.0, 8.0, 1.25) | {"run_type": "aggregate", "aggregate_name": "median"}
        mean = median | {"aggregate_name": "mean", "cpu_time": 100.0}
        self.assertEqual(list(times_of(policy("KNorm", 512, 1, 1.0, 1.0, 1.0), mean, median).values()),
                         [report.Time(7.0, 1.25)])
        self.assertEqual(list(times_of(mean, median).values()), [report.Time(7.0, 1.25)])

    def test_clocks_and_units(self):
        times = times_of(policy("KNorm", 512, 1, 2.0, 9.0, 1.0, unit="us"), policy("KNorm", 512, 2, 9.0, 4.0, 1.0, unit="s"))
        self.assertEqual([time.milliseconds for time in times.values()], [0.002, 4000.0])

    def test_failed_runs_are_left_out(self):
        self.assertEqual(times_of(policy("KNorm", 512, 1, 2.0, 9.0, 1.0, error_occurred=True)), {})

    def test_table(self):
        times = times_of(policy("KNorm", 512, 1, 0.01234, 1.0, 1.25), policy("KNorm", 2048, 1, 12.345, 1.0, 1.1),
                         policy("Jacap,pooled=false", 2048, 1, 1234.5, 1.0, 3.0), policy("KNorm", 512, 2, 1.0, 5.0, 2.0),
                         run("op/softmax,probability/cpu/float/N:512/heads:8/group:1/threads:1", 3.0, 1.0, 1.5))
        self.assertEqual(report.table(times, "policy", 1), "\n".join([
            "| policy | 2 x 512 x 64 float | 2 x 2k x 64 float |",
            "|---|---|---|",
            "| KNorm | 0.0123 (1.25) | 12.3 (1.10) |",
            "| Jacap, pooled=false |  | 1.23e+03 (3.00) |"]))
        self.assertEqual(report.table(times, "policy", 4), "")
        text = report.tables(times)
        self.assertIn("Policies, 1 thread, milliseconds (bound_ratio):", text)
        self.assertIn("Policies, 2 threads, milliseconds (bound_ratio):\n\n| policy | 2 x 512 x 64 float |\n|---|---|\n"
                      "| KNorm | 5 (2.00) |", text)
        self.assertIn("| softmax, probability | 3 (1.50) |", text)

    def test_lines_over_rows_are_of_the_largest_heads(self):
        other = run("policy/KNorm/cpu/float/N:2048/d:128/heads:8/group:4/threads:1", 1.0, 1.0, 1.0)
        times = times_of(policy("KNorm", 4096, 1, 8.0, 1.0, 2.0), policy("KNorm", 512, 1, 1.0, 1.0, 1.0), other,
                         policy("KNorm", 512, 1, 1.0, 1.0, 1.0, element="half"))
        self.assertEqual(report.lines_over_rows(times), {"KNorm": [(512, report.Time(1.0, 1.0)), (4096, report.Time(8.0, 2.0))]})
        self.assertEqual(report.lines_over_rows({}), {})

    def test_stages(self):
        steps = [run("op/select_top,random/cpu/float/N:512/heads:2/group:1/threads:1", 0.5, 1.0, 1.0),
                 run("op/compact_rows/cpu/float/" + SIZE.format(512, 1), 0.25, 1.0, 1.0)]
        times = times_of(policy("KNorm", 4096, 1, 8.0, 1.0, 2.0), policy("KNorm", 512, 1, 1.0, 1.0, 1.0), *steps)
        self.assertEqual(report.stages(times), ("2 x 512 x 64", {"KNorm": (1.0, 0.5, 0.5)}))
        self.assertIsNone(report.stages(times_of(policy("KNorm", 4096, 1, 8.0, 1.0, 2.0))))

    def test_speedups(self):
        times = times_of(policy("KNorm", 512, 2, 9.0, 1.0, 1.0), policy("KNorm", 512, 1, 3.0, 1.0, 1.0),
                         policy("KNorm", 4096, 1, 8.0, 1.0, 2.0), policy("KNorm", 4096, 2, 9.0, 4.0, 2.0),
                         policy("H2O", 512, 1, 3.0, 1.0, 1.0))
        self.assertEqual(report.speedups(times), {"KNorm": [(1, 1.0), (2, 2.0)]})

    def test_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            context = {"date": "2026-11-30T10:00:00", "num_cpus": 2}
            path.write_text(json.dumps({"context": context, "benchmarks": [policy("KNorm", 512, 1, 2.0, 1.0, 1.5)]}))
            printed = subprocess.run([sys.executable, report.__file__, path], check=True, capture_output=True, text=True)
            self.assertIn("2026-11-30, 2 cores", printed.stdout)
            self.assertIn("| KNorm | 2 (1.50) |", printed.stdout)
            path.write_text(json.dumps({"context": context, "benchmarks": []}))
            empty = subprocess.run([sys.executable, report.__file__, path], capture_output=True, text=True)
            self.assertEqual((empty.returncode, empty.stderr), (1, "no policy and no operation was measured\n"))


if __name__ == "__main__":
    unittest.main()
