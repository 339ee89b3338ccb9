#!/usr/bin/env python3
"""Reduces results files to summaries, as this folder keeps them.

A row keeps three samples: its 5th percentile, its median and its 95th percentile. Skipped rows,
second runs of Tandem and records of the machine's noise are left out.

usage: summarize.py FILE...     (replaces each file)
"""
import json
import sys

KEPT = (
    "suite", "case", "impl", "variant", "dtype", "shape", "mode", "packing", "flops", "bytes",
    "verified", "max_error", "status", "reason", "note",
)
KEPT_METRICS = {
    "peak_gflops", "of_peak", "of_stream", "of_copy", "of_read", "read_gbs", "level", "latency_ns",
    "noisy", "peak_reserved", "lower_bound", "reserved_over_bound", "predicted_s", "overlap",
    "sustained_of_burst", "tiles", "bytes_in", "bytes_out", "device_bytes", "setting_default",
    "setting_best",
}


def rounded(value):
    """Rounds to five significant digits, which is finer than the noise of any measurement here."""
    return float("%.5g" % value) if isinstance(value, float) else value


def summary_of(row):
    summary = {key: rounded(row[key]) for key in KEPT if row.get(key) is not None}
    times = [rounded(row[key]) for key in ("p5_s", "median_s", "p95_s")] if row["raw_s"] else []
    summary.update(samples=len(times), raw_s=times)
    if times:
        summary.update(median_s=times[1])
    metrics = {key: rounded(value) for key, value in row.get("metrics", {}).items()
               if key in KEPT_METRICS and value is not None}
    if metrics:
        summary["metrics"] = metrics
    return summary


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    rows = [json.dumps(summary_of(row), separators=(",", ":")) for row in record.pop("results")
            if row["status"] != "skipped" and row["impl"] != "tandem-again"]
    record["environment"]["summary"] = (
        "samples are the 5th percentile, the median and the 95th percentile")
    for part in ("environment", "device"):
        record[part] = {key: value for key, value in record[part].items() if value is not None}
    head = json.dumps(record, indent=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head[:-2] + ',\n "results": [\n' + ",\n".join(rows) + "\n ]\n}\n")
