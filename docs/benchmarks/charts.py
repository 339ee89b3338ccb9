#!/usr/bin/env python3
"""Draws the charts of this folder from the results files in bench/results.

Each chart is one SVG file that follows the reader's light or dark colour scheme. The same results
files always give the same bytes. Nothing outside of Python's standard library is needed.

usage: charts.py            (writes docs/benchmarks/*.svg)
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "..", "..", "bench", "results")
WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 74, 58
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11.5px; fill: #57606a; }
  .page { fill: #ffffff; }
  .grid { stroke: #d8dee4; }
  .peak { stroke: #57606a; stroke-dasharray: 6 4; fill: none; }
  .line { fill: none; stroke-width: 2.5; }
  .s0 { --c: #0969da; } .s1 { --c: #bc4c00; } .s2 { --c: #1a7f37; } .s3 { --c: #8250df; }
  .line { stroke: var(--c); } .mark { fill: var(--c); }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .page { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .peak { stroke: #9198a1; }
    .s0 { --c: #58a6ff; } .s1 { --c: #f0883e; } .s2 { --c: #56d364; } .s3 { --c: #bc8cff; }
  }"""

ZEN3 = "2026-11-21-amd-epyc-zen3-2c-pocl-3.1-"
ZEN4 = "2026-11-24-amd-epyc-zen4-2c-pocl-3.1-"
ZEN5 = "2026-11-23-amd-epyc-zen5-2c-pocl-3.1-"
XEON24 = "2026-11-24-intel-xeon-amx-2c-pocl-3.1-"
XEON28 = "2026-11-28-intel-xeon-amx-2c-pocl-3.1-"
RUSTICL = "2026-11-23-amd-epyc-zen5-2c-rusticl-22.3-"

TANDEM_ONEDNN_OPENBLAS = [
    ("tandem", "Tandem through PoCL"), ("onednn", "oneDNN 2.6"),
    ("openblas-best", "OpenBLAS 0.3.21"),
]
TANDEM_ONEDNN = [("tandem", "Tandem through PoCL"), ("onednn", "oneDNN 2.6")]

# Square GEMM against peers: file of the chart, results, type, packing, contenders, title, unit.
SQUARES = [
    ("zen3-gemm-f32", ZEN3 + "gemm-f32", "f32", "inside",
     [("tandem", "Tandem through PoCL"), ("onednn", "oneDNN"), ("openblas", "OpenBLAS"),
      ("clblast", "CLBlast on PoCL")], "f32 GEMM, 2 cores of an AMD EPYC (Zen 3)", "GFLOP/s"),
    ("zen4-gemm-f32", ZEN4 + "gemm-squares", "f32", "inside", TANDEM_ONEDNN_OPENBLAS,
     "f32 GEMM, 2 cores of an AMD EPYC (Zen 4)", "GFLOP/s"),
    ("zen4-gemm-bf16", ZEN4 + "gemm-squares", "bf16", "inside", TANDEM_ONEDNN,
     "bf16 GEMM, 2 cores of an AMD EPYC (Zen 4)", "GFLOP/s"),
    ("zen4-gemm-u8s8", ZEN4 + "gemm-squares-int8", "u8s8", "prepacked", TANDEM_ONEDNN,
     "u8·s8 GEMM to s32, B prepacked, 2 cores of an AMD EPYC (Zen 4)", "10⁹ operations/s"),
    ("zen5-gemm-f32", ZEN5 + "gemm-squares-f32", "f32", "inside", TANDEM_ONEDNN_OPENBLAS,
     "f32 GEMM, 2 cores of an AMD EPYC (Zen 5)", "GFLOP/s"),
    ("zen5-gemm-u8s8", ZEN5 + "gemm-squares-int8", "u8s8", "prepacked", TANDEM_ONEDNN,
     "u8·s8 GEMM to s32, B prepacked, 2 cores of an AMD EPYC (Zen 5)", "10⁹ operations/s"),
    ("xeon-gemm-f32", XEON24 + "gemm-squares", "f32", "inside", TANDEM_ONEDNN_OPENBLAS,
     "f32 GEMM, 2 cores of an Intel Xeon with AMX", "GFLOP/s"),
    ("xeon-gemm-bf16", XEON24 + "gemm-squares", "bf16", "inside", TANDEM_ONEDNN,
     "bf16 GEMM, 2 cores of an Intel Xeon with AMX", "GFLOP/s"),
    ("xeon-gemm-u8s8", XEON28 + "gemm-squares-int8", "u8s8", "prepacked", TANDEM_ONEDNN,
     "u8·s8 GEMM to s32, B prepacked, 2 cores of an Intel Xeon with AMX", "10⁹ operations/s"),
]
# Reading working sets of growing size: file of the chart, results, title.
SWEEPS = [
    ("zen5-memory", ZEN5 + "report",
     "Reading by working set, 2 cores of an AMD EPYC (Zen 5), PoCL"),
    ("zen5-rusticl-memory", RUSTICL + "report",
     "Reading by working set, 2 cores of an AMD EPYC (Zen 5), rusticl"),
]


# Commits were put together after these were measured: the library is that of the second one.
MEASURED_AT = {"8b808dd": "f727c43"}


def load(name):
    with open(os.path.join(RESULTS, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def setup_of(record):
    """The line under a chart: when, with what, and of which commit."""
    commit = record["library"]["commit"][:7]
    return "Setup: %s, commit %s, %s %s" % (
        record["created"][:10], MEASURED_AT.get(commit, commit),
        record["device"]["driver_family"], record["device"]["driver"].split("+")[0])


def step_of(largest):
    """A round step that gives at most six lines."""
    for power in range(-2, 8):
        for digit in (1, 2, 5):
            if largest / (digit * 10.0 ** power) <= 6:
                return digit * 10.0 ** power
    raise ValueError(largest)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def marker(kind, x, y):
    shapes = (
        '<circle class="mark s0" cx="%.1f" cy="%.1f" r="4.5"/>',
        '<path class="mark s1" d="M-4 -4h8v8h-8z" transform="translate(%.1f %.1f)"/>',
        '<path class="mark s2" d="M0 -5 5 4 -5 4z" transform="translate(%.1f %.1f)"/>',
        '<path class="mark s3" d="M0 -6 5 0 0 6 -5 0z" transform="translate(%.1f %.1f)"/>',
    )
    return shapes[kind] % (x, y)


def legend(series, dashed):
    out, x = [], LEFT
    for kind, (label, _) in enumerate(series):
        out.append(marker(kind, x + 5, 43))
        out.append('<text x="%d" y="47">%s</text>' % (x + 15, escape(label)))
        x += 32 + 7 * len(label)
    if dashed:
        out.append('<path class="peak" d="M%d 43h22"/>' % x)
        out.append('<text x="%d" y="47">%s</text>' % (x + 28, escape(dashed)))
    return out


def chart(title, unit, categories, series, peaks, setup, axis):
    """Lines over equally spaced categories; `peaks` is a dashed line, or nothing."""
    largest = max([v for _, values in series for v in values if v] + [v for v in peaks if v])
    step = step_of(largest)
    top = step * (int(largest / step) + 1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    xs = [LEFT + wide * (i + 0.5) / len(categories) for i in range(len(categories))]

    def height(value):
        return TOP + high * (1 - value / top)

    out = ['<rect class="page" width="%d" height="%d"/>' % (WIDTH, HEIGHT),
           '<text class="title" x="%d" y="22">%s</text>' % (LEFT, escape(title))]
    out += legend(series, "measured peak" if peaks else "")
    out.append('<text class="small" x="%d" y="%d">%s</text>' % (LEFT, TOP - 8, escape(unit)))
    lines = int(round(top / step))
    for i in range(lines + 1):
        y = height(i * step)
        out.append('<path class="grid" d="M%d %.1fh%d"/>' % (LEFT, y, wide))
        out.append('<text class="small" x="%d" y="%.1f" text-anchor="end">%g</text>'
                   % (LEFT - 8, y + 4, i * step))
    for x, name in zip(xs, categories):
        if name:
            out.append('<text class="small" x="%.1f" y="%d" text-anchor="middle">%s</text>'
                       % (x, HEIGHT - BOTTOM + 18, name))
    if peaks:
        points = " ".join("%.1f,%.1f" % (x, height(p)) for x, p in zip(xs, peaks) if p)
        out.append('<polyline class="peak" points="%s"/>' % points)
    for kind, (_, values) in enumerate(series):
        points = [(x, height(v)) for x, v in zip(xs, values) if v]
        out.append('<polyline class="line s%d" points="%s"/>'
                   % (kind, " ".join("%.1f,%.1f" % p for p in points)))
        out += [marker(kind, x, y) for x, y in points]
    out.append('<text class="small" x="%d" y="%d">%s</text>' % (LEFT, HEIGHT - 8, escape(setup)))
    out.append('<text class="small" x="%d" y="%d" text-anchor="end">%s</text>'
               % (WIDTH - RIGHT, HEIGHT - 8, escape(axis)))
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
            'role="img" aria-label="%s">\n<style>%s\n</style>\n%s\n</svg>\n'
            % (WIDTH, HEIGHT, WIDTH, HEIGHT, escape(title), STYLE, "\n".join(out)))


def write(name, text):
    with open(os.path.join(HERE, name + ".svg"), "w", encoding="utf-8") as file:
        file.write(text)


def draw_squares(name, results, dtype, packing, contenders, title, unit):
    record = load(results)
    rates, peaks = {}, {}
    for row in record["results"]:
        if row["suite"] != "gemm" or row["dtype"] != dtype or row["packing"] != packing:
            continue
        size = row["shape"]["m"]
        rates[row["impl"], size] = row["flops"] / row["median_s"] / 1e9
        peak = row.get("metrics", {}).get("peak_gflops")
        if peak:
            peaks[size] = peak
    sizes = sorted({size for _, size in rates})
    series = [(label, [rates.get((impl, size)) for size in sizes]) for impl, label in contenders]
    # A peak far above would flatten the lines; one far below is of other instructions.
    largest, peak = max(rates.values()), max(peaks.values(), default=0)
    fits = largest / 2 < peak and largest < 1.1 * peak
    shown = [peaks.get(size) for size in sizes] if fits else []
    write(name, chart(title, unit, ["%d³" % size for size in sizes], series, shown,
                      setup_of(record), "M = N = K"))


def size_name(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return "%g %s" % (size / factor, unit)
    return str(size)


def draw_sweep(name, results, title):
    record = load(results)
    rates = {}
    for row in record["results"]:
        words = row["case"].split()
        if row["suite"] == "memory" and words[:2] == ["sweep", "read"] and row["impl"] == "tandem":
            rates[int(words[2])] = row["bytes"] / row["median_s"] / 1e9
    sizes = sorted(rates)
    names = [size_name(size) if i % 4 == 0 else "" for i, size in enumerate(sizes)]
    write(name, chart(title, "GB/s", names, [("Tandem", [rates[size] for size in sizes])], [],
                      setup_of(record), "working set"))


for arguments in SQUARES:
    draw_squares(*arguments)
for arguments in SWEEPS:
    draw_sweep(*arguments)
