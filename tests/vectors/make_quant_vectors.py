#!/usr/bin/env python3
"""Writes a header with expected results of quant/, computed in exact rational arithmetic.

It shares only the written rules with the C code (docs/numerics.md). Every rounding to f32, f16 or
bf16 is done on fractions, by the definition of the formats. Python 3.8 or later, no packages.

    python3 tests/vectors/make_quant_vectors.py > tests/vectors/quant_vectors.h
"""
import random
import re
import struct
from fractions import Fraction
from itertools import product
from math import floor

INF, NAN = "inf", "nan"


class Format:
    def __init__(self, exponent_bits, mantissa_bits):
        self.exponent_bits, self.mantissa_bits = exponent_bits, mantissa_bits
        self.bias = (1 << (exponent_bits - 1)) - 1
        self.infinity = ((1 << exponent_bits) - 1) << mantissa_bits


F32, F16, BF16 = Format(8, 23), Format(5, 10), Format(8, 7)
RANGES = {"s8w": (-127, 127), "s8a": (-128, 127), "u8": (0, 255), "s4": (-7, 7), "s4z": (-8, 7)}
RANGE_IDS = list(RANGES)


class Number:
    """A value of a float format: sign (0 or 1) and a magnitude, which is a fraction, INF or NAN."""

    def __init__(self, sign, magnitude):
        self.sign, self.magnitude = sign, magnitude

    def finite(self):
        return self.magnitude not in (INF, NAN)

    def value(self):
        return -self.magnitude if self.sign else self.magnitude


def rint_even(x):
    low = floor(x)
    rest = x - low
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1):
        return low + 1
    return low


def number(x):
    return Number(1 if x < 0 else 0, abs(Fraction(x)))


def narrow(n, fmt):
    """Returns the bits of a number in a format: nearest, ties to even."""
    sign = n.sign << (fmt.exponent_bits + fmt.mantissa_bits)
    if n.magnitude == NAN:
        return sign | fmt.infinity | (1 << (fmt.mantissa_bits - 1))
    if n.magnitude == INF:
        return sign | fmt.infinity
    smallest = Fraction(2) ** (1 - fmt.bias - fmt.mantissa_bits)
    exponent = 1 - fmt.bias
    while n.magnitude >= Fraction(2) ** (exponent + 1) and exponent <= fmt.bias:
        exponent += 1
    step = Fraction(2) ** (exponent - fmt.mantissa_bits)
    rounded = rint_even(n.magnitude / step) * step
    if rounded >= Fraction(2) ** (fmt.bias + 1):
        return sign | fmt.infinity
    if rounded < Fraction(2) ** (1 - fmt.bias):
        return sign | int(rounded / smallest)
    while rounded >= Fraction(2) ** (exponent + 1):
        exponent += 1
    mantissa = int(rounded / Fraction(2) ** (exponent - fmt.mantissa_bits))
    return sign | ((exponent + fmt.bias - 1) << fmt.mantissa_bits) + mantissa


def widen(bits, fmt):
    sign = bits >> (fmt.exponent_bits + fmt.mantissa_bits)
    exponent = (bits >> fmt.mantissa_bits) & ((1 << fmt.exponent_bits) - 1)
    mantissa = bits & ((1 << fmt.mantissa_bits) - 1)
    if exponent == (1 << fmt.exponent_bits) - 1:
        return Number(sign, NAN if mantissa else INF)
    if exponent == 0:
        return Number(sign, mantissa * Fraction(2) ** (1 - fmt.bias - fmt.mantissa_bits))
    mantissa += 1 << fmt.mantissa_bits
    return Number(sign, mantissa * Fraction(2) ** (exponent - fmt.bias - fmt.mantissa_bits))


def f32(n):
    """Returns a number rounded to f32."""
    return widen(narrow(n, F32), F32)


def from_float(x):
    """Returns the f32 nearest to a Python float."""
    return f32(number(Fraction(x)))


def multiply(a, b):
    sign = a.sign ^ b.sign
    if NAN in (a.magnitude, b.magnitude):
        return Number(0, NAN)
    if INF in (a.magnitude, b.magnitude):
        return Number(sign, NAN if 0 in (a.magnitude, b.magnitude) else INF)
    return f32(Number(sign, a.magnitude * b.magnitude))


def divide(a, b):
    sign = a.sign ^ b.sign
    if a.magnitude in (INF, NAN):
        return Number(sign, a.magnitude)
    return f32(Number(sign, a.magnitude / b.magnitude))


def bits(n):
    return narrow(n, F32)


def clamp(x, low, high):
    return low if x < low else high if x > high else x


def to_range(quotient, zero, limits):
    low, high = limits
    if quotient.magnitude == NAN:
        return zero
    if quotient.magnitude == INF:
        return low if quotient.sign else high
    return clamp(rint_even(quotient.value()) + zero, low, high)


def quantize(x, scale, zero, limits):
    return zero if scale.magnitude == 0 else to_range(divide(x, scale), zero, limits)


def dequantize(q, scale, zero):
    if scale.magnitude == 0:
        return Number(0, Fraction(0))
    return multiply(scale, f32(number(q - zero)))


def passes(x, scale, zero, limits):
    if scale.magnitude == 0 or not x.finite():
        return 0
    quotient = divide(x, scale)
    if not quotient.finite():
        return 0
    return 1 if limits[0] <= rint_even(quotient.value()) + zero <= limits[1] else 0


# ---- quantize, dequantize, fake quantize ---------------------------------------------------------

def points(scale, zero, limits, rng):
    """Returns ties, their neighbours and numbers around saturation."""
    low, high = limits
    steps = {low - zero, high - zero, 0, 1, -1, 2, rng.randint(low, high) - zero}
    result = []
    for step in sorted(steps):
        for half in (Fraction(-1, 2), Fraction(0), Fraction(1, 2)):
            n = f32(number((step + half) * scale.value()))
            result.append(bits(n))
            if half and n.finite() and n.magnitude:
                result += [bits(n) - 1, bits(n) + 1]
    return result


SPECIALS = [0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f7fffff,
            0xff7fffff, 0x00000001, 0x80000001, 0x007fffff, 0x00800000]


def quantize_rows(rng):
    zeros = {"s8w": [0], "s8a": [-128, -127, -1, 0, 7, 126, 127], "u8": [0, 1, 128, 255],
             "s4": [0], "s4z": [-8, -3, 0, 7]}
    scales = [from_float(s) for s in (1.0, 0.5, 0.1, 1 / 127, 2.0 ** -126, -0.25, 3e38,
                                      1.5 * 2.0 ** -20)]
    rows, turn = [], 0
    for name in RANGE_IDS:
        for zero in zeros[name]:
            for scale in [scales[0], scales[1 + turn % 7], scales[1 + (turn + 3) % 7], number(0)]:
                xs = SPECIALS
                if scale.magnitude != 0:
                    xs = points(scale, zero, RANGES[name], rng) + SPECIALS
                if turn or scale is not scales[0]:
                    xs = rng.sample(xs, 2 if scale.magnitude == 0 else 4)
                for x in xs:
                    n = widen(x, F32)
                    q = quantize(n, scale, zero, RANGES[name])
                    rows.append("{0x%08x,0x%08x,%d,%d,%d,0x%08x,%d}" % (
                        x, bits(scale), zero, RANGE_IDS.index(name), q,
                        bits(dequantize(q, scale, zero)),
                        passes(n, scale, zero, RANGES[name])))
            turn += 1
    return rows


# ---- requantize ----------------------------------------------------------------------------------

def requantize_rows(rng):
    sums = [0, 1, -1, 3, -3, 5, 127, 255, -257, 2 ** 24, 2 ** 24 + 1, 2 ** 24 + 3, -2 ** 24 - 1,
            -2 ** 24 - 3, 2 ** 31 - 1, -2 ** 31, 2 ** 31 - 65, 2 ** 30 + 64, 2 ** 30 + 192]
    factors = [from_float(f) for f in (0.5, 1.0, 2.0 ** -24, 2.0 ** -23, 1.5 * 2.0 ** -17, 0.0,
                                       0.1, -0.5, 1e-3)]
    targets = [("s8w", 0), ("s8a", -128), ("s8a", 127), ("s8a", 5), ("u8", 0), ("u8", 255),
               ("u8", 131), ("s4z", -8), ("s4", 0)]
    rows = []
    for name, zero in targets:
        for factor in factors:
            for total in sums + [rng.randint(-40000, 40000) for _ in range(2)]:
                if rng.random() < 0.93:
                    continue
                product = multiply(f32(number(total)), factor)
                q = to_range(product, zero, RANGES[name])
                text = "INT32_MIN" if total == -2 ** 31 else str(total)
                rows.append("{%s,0x%08x,%d,%d,%d}" % (
                    text, bits(factor), zero, RANGE_IDS.index(name), q))
    return rows


def sensitive_rows(rng, count):
    """Returns rows with sums beyond 2^24 whose result depends on the rounding of float(acc)."""
    rows = []
    while len(rows) < count:
        total = rng.choice((-1, 1)) * rng.randint(2 ** 24, 2 ** 31 - 1)
        factor = f32(number(Fraction(2 * rng.randint(0, 100) + 1, 2) / abs(total)))
        twice = to_range(multiply(f32(number(total)), factor), 3, RANGES["s8a"])
        once = to_range(f32(number(total * factor.value())), 3, RANGES["s8a"])
        if twice != once:
            rows.append("{%d,0x%08x,3,%d,%d}" % (
                total, bits(factor), RANGE_IDS.index("s8a"), twice))
    return rows


# ---- parameters ----------------------------------------------------------------------------------

def kept(scale, steps, fmt):
    """Returns a scale as a format stores it: nearest, ties to even.

    If the scale or its product with steps is infinite, the next smaller value is stored.
    """
    smallest = Fraction(2) ** -126
    if scale.magnitude < smallest:
        return number(0)
    narrowed = widen(narrow(scale, fmt), fmt)
    if not narrowed.finite():
        narrowed = widen(fmt.infinity - 1, fmt)
    if f32(number(narrowed.magnitude * steps)).finite():
        return narrowed
    return widen(narrow(narrowed, fmt) - 1, fmt)


def derive(symmetric, low_bits, high_bits, limits, fmt=F32):
    largest = widen(0x7f7fffff, F32).magnitude

    def bound(b):
        n = widen(b, F32)
        if n.magnitude == NAN:
            return Fraction(0)
        return (-largest if n.sign else largest) if n.magnitude == INF else n.value()

    lowest, highest = min(bound(low_bits), Fraction(0)), max(bound(high_bits), Fraction(0))
    low, high = limits
    if symmetric:
        middle = (low + high + 1) // 2
        steps = high - middle
        return kept(f32(number(max(-lowest, highest) / steps)), steps, fmt), middle
    width = f32(number(highest - lowest))
    if width.magnitude == INF:
        width = number(largest)
    scale = kept(f32(number(width.magnitude / (high - low))), high - low, fmt)
    if scale.magnitude == 0:
        return number(0), clamp(0, low, high)
    ratio = f32(number(lowest / scale.magnitude))
    zero = f32(number(low - ratio.value()))
    return scale, clamp(rint_even(zero.value()), low, high)


def derive_rows():
    pairs = [(0.0, 0.0), (-1.0, 1.0), (0.0, 6.0), (-3.0, 0.0), (2.0, 5.0), (-5.0, -2.0), (0.7, 0.7),
             (-0.3, -0.3), (-0.1, 25.4), (-1e-30, 1e30), (-127.5, 127.5), (-0.5, 254.5),
             (-1.5, 253.5)]
    pairs = [(bits(from_float(a)), bits(from_float(b))) for a, b in pairs]
    pairs += [(0xff7fffff, 0x7f7fffff), (0xff800000, 0x7f800000), (0x7fc00000, 0x3f800000),
              (0x7f800000, 0xff800000), (0x80000001, 0x00000001), (0x00000000, 0x007fffff),
              (0x00000000, 0x40ffffff), (0x80800000, 0x04000000), (0x00000000, 0x047f0000),
              (0x00000000, 0x047effff), (0x80000000, 0x03800000)]
    rows = []
    for turn, (a, b) in enumerate(pairs):
        for i in range(turn % 2, 5, 2):
            symmetric = (turn + i) // 2 % 2
            scale, zero = derive(symmetric, a, b, RANGES[RANGE_IDS[i]])
            rows.append("{%d,0x%08x,0x%08x,%d,0x%08x,%d}" % (symmetric, a, b, i, bits(scale), zero))
    return rows


def kept_rows(rng):
    """Returns ranges for scales near ties of f16 or bf16, too large, too small, or random."""
    pairs = [(0xff7fffff, 0x7f7fffff), (0x00000000, 0x7f7fffff), (0x00000000, 0x04000000),
             (0x00000000, 0x037e0000), (0x00000000, 0x00000001), (0x00000000, 0x7fc00000)]
    for top in (65504 * 127, 65520 * 127, 65519 * 127, 70000 * 127, 1e9):
        pairs.append((bits(from_float(-top)), bits(from_float(top / 2))))
    for exponent in (-26, -20, -14, 0):
        pairs.append((0, bits(from_float(127 * (1 + 3 * 2.0 ** -11) * 2.0 ** exponent))))
    for mantissa in (131, 255):
        for lower in (0x7fff, 0x8000, 0x8001):
            scale = widen(((120 + mantissa % 9) << 23) + ((mantissa & 127) << 16) + lower, F32)
            for steps in (127, 255):
                pairs.append((0, bits(f32(number(scale.value() * steps)))))
    for _ in range(2):
        low, high = -rng.expovariate(1.0), rng.expovariate(0.2)
        pairs.append((bits(from_float(low)), bits(from_float(high))))
    rows = []
    for turn, (a, b) in enumerate(pairs):
        for name, symmetric in (("s8w", 1), (("u8", 0), ("s4z", 0), ("s8a", 0))[turn % 3]):
            cells = []
            for fmt in (F16, BF16):
                scale, zero = derive(symmetric, a, b, RANGES[name], fmt)
                cells += ["0x%08x" % bits(scale), str(zero)]
            rows.append("{%d,0x%08x,0x%08x,%d,%s}" % (
                symmetric, a, b, RANGE_IDS.index(name), ",".join(cells)))
    return rows


# ---- blocks of GGUF files ------------------------------------------------------------------------

def round_away(x):
    return floor(x + Fraction(1, 2)) if x >= 0 else -floor(-x + Fraction(1, 2))


def inverse(d):
    if d.magnitude == 0:
        return number(0)
    n = f32(number(1 / d.value()))
    return n if n.finite() else number(0)


def encode_q8_0(xs):
    d = f32(number(max(abs(x.value()) for x in xs) / 127))
    factor = inverse(d)
    quants = [round_away(multiply(x, factor).value()) & 255 for x in xs]
    return list(struct.pack("<H", narrow(d, F16))) + quants


def encode_q4_0(xs):
    extreme = number(0)
    for x in xs:
        if x.magnitude > extreme.magnitude:
            extreme = x
    d = f32(Number(extreme.sign ^ 1, extreme.magnitude / 8))
    factor = inverse(d)

    def nibble(x):
        shifted = f32(number(multiply(x, factor).value() + Fraction(17, 2))).value()
        return min(15, int(shifted))

    quants = [nibble(xs[i]) | nibble(xs[i + 16]) << 4 for i in range(16)]
    return list(struct.pack("<H", narrow(d, F16))) + quants


def block_inputs(rng):
    gauss = lambda scale: [from_float(rng.gauss(0, scale)) for _ in range(32)]
    blocks = [[number(0)] * 32, gauss(1), gauss(1e-7), gauss(1e-40)]
    blocks.append([from_float(x) for x in [-127.0] + [(i - 15) + 0.5 for i in range(31)]])
    blocks.append([from_float(x) for x in [8.0] + [(i - 15) * 0.5 for i in range(31)]])
    blocks.append([from_float(x) for x in [-3.0, 3.0] + [0.1 * i for i in range(30)]])
    blocks.append([from_float(x) for x in [3.0, -3.0] + [0.1 * i for i in range(30)]])
    blocks.append([from_float(524096.0)] + gauss(1e5)[:31])
    blocks.append([Number(0, Fraction(2) ** -149)] * 16 + [Number(1, Fraction(2) ** -149)] * 16)
    blocks.append([Number(i % 2, (i + 1) * Fraction(2) ** -27) for i in range(32)])
    return blocks


def block_rows(rng):
    rows = []
    for xs in block_inputs(rng):
        q8, q4 = encode_q8_0(xs), encode_q4_0(xs)
        rows.append("{{%s},\n {%s},\n {%s}}" % (
            ",".join("0x%08x" % bits(x) for x in xs), ",".join(map(str, q8)),
            ",".join(map(str, q4))))
    return rows


# ---- dynamic quantization of rows ----------------------------------------------------------------

def dynamic_inputs(rng):
    inputs = [[rng.gauss(0, 1) for _ in range(11)], [rng.uniform(0, 6) for _ in range(11)],
              [-rng.uniform(1, 2) for _ in range(11)], [0.0] * 11, [1e-42] * 11,
              [3.5] * 11, [rng.gauss(0, 1e37) for _ in range(11)]]
    inputs = [[bits(from_float(x)) for x in row] for row in inputs]
    inputs.append(inputs[0][:5] + [0x7fc00000, 0x7f800000, 0xff800000, 0x00000001, 0x80000000,
                                   0xffc00000])
    inputs.append([0x7fc00000] * 5 + [0x7f800000] * 6)
    return inputs


def dynamic_rows(rng):
    rows = []
    cases = product(dynamic_inputs(rng), enumerate((F32, F16, BF16)))
    for turn, (row, (fmt_id, fmt)) in enumerate(cases):
        numbers = [widen(b, F32) for b in row]
        finite = [n.value() for n in numbers if n.finite()]
        low = bits(number(min(finite + [Fraction(0)])))
        high = bits(number(max(finite + [Fraction(0)])))
        kinds = (("s8w", 1), ("u8", 0), ("s8a", 0), ("s4", 1), ("u8", 1), ("s4z", 0))
        for name, symmetric in kinds[(2 * fmt_id + turn % 2):][:1]:
            scale, zero = derive(symmetric, low, high, RANGES[name], fmt)
            quants = [quantize(n, scale, zero, RANGES[name]) for n in numbers]
            rows.append("{%d,%d,%d,{%s},0x%08x,%d,{%s}}" % (
                symmetric, RANGE_IDS.index(name), fmt_id, ",".join("0x%08x" % b for b in row),
                bits(scale), zero, ",".join(map(str, quants))))
    return rows


# ---- float formats -------------------------------------------------------------------------------

def narrow_rows(rng):
    xs = SPECIALS + [0x477fe000, 0x477fefff, 0x477ff000, 0x477fffff, 0x47800000, 0xc77ff000,
                     0x7f7f7fff, 0x7f7f8000, 0xff7f8000, 0x33000000, 0x33000001, 0x3f801000,
                     0x3f803000, 0x3f808000, 0x3f818000] + [rng.getrandbits(32) for _ in range(8)]
    rows = []
    for x in xs:
        n = widen(x, F32)
        cells = ["0x%08x" % x]
        for fmt in (F16, BF16):
            plain = narrow(n, fmt)
            if n.magnitude == NAN:
                plain |= (x & 0x7fffff) >> (23 - fmt.mantissa_bits)
            overflow = n.finite() and plain & ~(1 << 15) == fmt.infinity
            cells += ["0x%04x" % plain, "0x%04x" % (plain - 1 if overflow else plain)]
        rows.append("{" + ",".join(cells) + "}")
    return rows


def pack_rows():
    rows = []
    for values in ([-8, 7], [0, 1, 2, 3], [-1, -2, -3], [7], [-128, 127, 8, -9, 5]):
        packed = [0] * ((len(values) + 1) // 2)
        for i, v in enumerate(values):
            packed[i // 2] |= (clamp(v, -8, 7) & 15) << (4 * (i % 2))
        rows.append("{%d,{%s},{%s}}" % (
            len(values), ",".join(map(str, values)), ",".join(map(str, packed))))
    return rows


# ---- headers -------------------------------------------------------------------------------------

COLUMNS = 100


def wrap(row):
    """Breaks a row after commas, with room for one more comma behind it."""
    lines = []
    for part in row.split("\n"):
        line = ""
        for cell in re.findall("[^,]*,|[^,]+$", part):
            if len(line) + len(cell) >= COLUMNS:
                lines.append(line)
                line = " "
            line += cell
        lines.append(line)
    return lines


def array(declaration, rows):
    lines = ["static const %s[] = {" % declaration]
    room = 0
    for row in rows:
        wrapped = wrap(row)
        wrapped[-1] += ","
        if len(wrapped) == 1 and len(wrapped[0]) <= room:
            lines[-1] += wrapped[0]
        else:
            lines += wrapped
        room = COLUMNS - len(lines[-1]) if len(wrapped) == 1 else 0
    return "\n".join(lines) + "\n};\n\n"


def table(kind, fields, rows):
    lines = ["typedef struct vector_%s {\n%s} vector_%s;\n" % (
        kind, "".join("    %s;\n" % f for f in fields), kind)]
    return "\n".join(lines + [array("vector_%s vectors_%s" % (kind, kind), rows)])


def main():
    rng = random.Random(20240611)
    parts = [
        "/* Indexed by the field `range` of the rows. */\n"
        "static const struct { int32_t low, high; } vector_ranges[] = {\n    %s};\n\n" %
        ", ".join("{%d, %d}" % RANGES[name] for name in RANGE_IDS),
        table("quantize", ["uint32_t x, scale", "int16_t zero_point, range, q",
                           "uint32_t dequantized", "int pass"], quantize_rows(rng)),
        table("requantize", ["int32_t acc", "uint32_t multiplier", "int16_t zero_point, range, q"],
              requantize_rows(rng) + sensitive_rows(random.Random(24), 12)),
        table("derive", ["int symmetric", "uint32_t minimum, maximum", "int range",
                         "uint32_t scale", "int zero_point"], derive_rows()),
        table("blocks", ["uint32_t x[32]", "uint8_t q8_0[34]", "uint8_t q4_0[18]"],
              block_rows(rng)),
        table("dynamic", ["int symmetric, range", "int scale_format", "uint32_t x[11]",
                          "uint32_t scale", "int zero_point", "int16_t q[11]"], dynamic_rows(rng)),
        table("kept", ["int symmetric", "uint32_t minimum, maximum", "int range",
                       "uint32_t f16_scale", "int f16_zero_point", "uint32_t bf16_scale",
                       "int bf16_zero_point"],
              kept_rows(random.Random(25))),
        table("narrow", ["uint32_t x", "uint16_t f16, f16_saturated, bf16, bf16_saturated"],
              narrow_rows(rng)),
        table("pack_s4", ["int count", "int8_t values[6]", "uint8_t packed[3]"], pack_rows())]
    print("/* Made by make_quant_vectors.py; floats are bit patterns. Do not edit. */\n"
          "/* clang-format off */\n"
          "#ifndef TANDEM_TESTS_QUANT_VECTORS_H\n#define TANDEM_TESTS_QUANT_VECTORS_H\n\n"
          "#include <stdint.h>\n\n" +
          "".join(parts) + "#endif")


main()
