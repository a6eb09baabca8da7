"""Operands of a problem, and the error of its result against sums in float64, for measure.py."""

import functools
import math

import numpy

ROWS = 8
# Half a unit in the last place of a number, relative to it.
ROUNDOFF = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "i32": 0.0}
# The step between the numbers next to 0, of which float16 has few.
LEAST = {"f32": 1e-30, "f16": 2.0**-24, "bf16": 1e-30, "i32": 1e-30}
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i8": 1}


class Missing(Exception):
    """Why a surface has no call for a problem, or no time."""


def shapes(problem):
    """The shape and the type of each operand as it is stored."""
    m, n, k = problem.m, problem.n, problem.k
    found = {"a": ((k, m) if problem.layout[0] == "t" else (m, k), problem.dtype),
             "b": ((n, k) if problem.layout[1] == "t" else (k, n), problem.dtype)}
    whole = {"bias": (n,), "residual": (m, n), "mul": (m, n)}
    scales = {"row-scale": (m,), "col-scale": (n,)}
    for word in problem.words:
        if word in scales:
            found[word.replace("-", "_")] = scales[word], "f32"
        elif word in whole:
            found[word] = whole[word], problem.out
    return found


@functools.lru_cache(maxsize=None)
def pool(is_whole, elements):
    """Random numbers that operands are parts of: uniform in [-1, 1), or all of 8 bits."""
    random = numpy.random.default_rng(1)
    if is_whole:
        return random.integers(-128, 128, elements, dtype=numpy.int8)
    return random.random(elements, dtype=numpy.float32) * 2 - 1


def on_host(problem):
    """Random operands as numpy has them: uniform in [-1, 1), small scales, and all numbers of 8 bits."""
    own = shapes(problem)
    most = max(math.prod(shape) for shape, _ in own.values())
    # A power of two, so that problems share it.
    elements = 1 << most.bit_length()
    made = {}
    for place, (name, (shape, kind)) in enumerate(own.items()):
        values, count = pool(kind == "i8", elements), math.prod(shape)
        start = place * 1_000_003 % (elements - count + 1)
        made[name] = values[start:start + count].reshape(shape)
        if name.endswith("scale"):
            made[name] = made[name] / numpy.float32(64)
    return made


def set_bytes(problem):
    """Bytes of a set of operands and its result."""
    operands = sum(math.prod(shape) * BYTES[kind] for shape, kind in shapes(problem).values())
    return operands + problem.m * problem.n * BYTES[problem.out]


def erf(values):
    return numpy.vectorize(math.erf, otypes=[numpy.float64])(values)


def finished(problem, value, error, operands):
    """The epilogue of some rows in float64, and the error behind it; of operands with an element for each row, only those."""
    for word in problem.words:
        operand = operands.get(word.replace("-", "_"))
        if word == "row-scale":
            operand = operand[:, None]
        if word in ("bias", "residual"):
            value, error = value + operand, error + 2.0**-22 * abs(operand)
        elif operand is not None:
            value, error = value * operand, error * abs(operand) + 2.0**-22 * abs(value * operand)
        elif word == "relu":
            value = numpy.maximum(value, 0)
        elif word == "gelu":
            value, error = value / 2 * (1 + erf(value * math.sqrt(0.5))), 1.2 * error + 1e-6
        elif word == "silu":
            value, error = value / (1 + numpy.exp(-value)), 1.2 * error + 1e-6
        else:
            raise Missing(f"no reference for {word}")
    return value, error


def parts(problem):
    """The rows of D that are compared: some from within, and the last ones."""
    start = problem.m // 3
    return slice(start, min(start + ROWS // 2, problem.m)), slice(max(problem.m - ROWS // 2, 0), problem.m)


def largest_error(problem, operands, d, host):
    """The largest error over its bound in some rows of D, against sums in float64. `host` makes an array of a package one of
    numpy in float64."""
    y = host(operands["b"])
    y = y.T if problem.layout[1] == "t" else y
    sizes, worst = abs(y), 0.0
    rate = 0.0 if problem.type == "i8" else 2.0**-22 * problem.k**0.5 + (2.0**-10 if problem.type == "tf32" else 0)
    for rows in parts(problem):
        x = host(operands["a"]).T[rows] if problem.layout[0] == "t" else host(operands["a"][rows])
        own = {name: host(one if name in ("bias", "col_scale") else one[rows])
               for name, one in operands.items() if name not in ("a", "b")}
        value, error = finished(problem, x @ y, rate * (abs(x) @ sizes), own)
        ratio = abs(host(d[rows]) - value) / (error + 2 * ROUNDOFF[problem.out] * abs(value) + LEAST[problem.out])
        worst = math.inf if numpy.isnan(ratio).any() else max(worst, float(ratio.max()))
        if worst == math.inf:
            break
    return worst
