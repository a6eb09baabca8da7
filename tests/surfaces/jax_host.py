"""Runs results/surfaces/measure.py for JAX on the host, with jax.numpy in the place of the kernels. Results are right, times are
those of the host.

    jax_host.py PROBLEMS
"""

import os
import sys
import tempfile
import time
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, f"{ROOT}/results/surfaces")
import jax  # noqa: E402: the folder is no package
import measure  # noqa: E402
from jax import numpy as jnp  # noqa: E402

ACTIVATIONS = {"gelu": lambda value: jax.nn.gelu(value, approximate=False), "silu": jax.nn.silu}


def matmul(a, b, *, layout, epilogue="", out_dtype=None, compute=None, **others):
    """What gemm_tuned_jax.matmul computes."""
    x, y = (one.T if letter == "t" else one for one, letter in zip((a, b), layout))
    is_whole = a.dtype == jnp.int8
    kind = jnp.int32 if is_whole else jnp.float32
    value = jnp.matmul(x.astype(kind), y.astype(kind), precision="highest")
    for word in filter(None, epilogue.split(",")):
        operand = others.get(word.replace("-", "_"))
        if word == "row-scale":
            value = value * operand[:, None]
        elif word in ("col-scale", "mul"):
            value = value * operand
        elif word in ACTIVATIONS:
            value = ACTIVATIONS[word](value.astype(jnp.float32))
        else:
            value = value + operand
    return value.astype(out_dtype or (jnp.int32 if is_whole else a.dtype))


class OnHost(measure.Jax):
    """Without events: a sample is what the host takes. It is late until 1 MiB is overwritten."""

    FLUSHED = 1 << 16

    def __init__(self):
        self.use(jax, types.SimpleNamespace(matmul=matmul))

    def sample(self, run):
        start = time.perf_counter()
        jax.block_until_ready(run(self.overwrite(1)[:1]))
        return (time.perf_counter() - start) * 1e6, self.flush_bytes < LATE_BELOW


LATE_BELOW = 1 << 28
surface = OnHost()
for problem in measure.lists.read(sys.argv[1]):
    print(measure.row("jax", surface, problem), flush=True)
    assert surface.flush_bytes == LATE_BELOW, surface.flush_bytes
# The calls that record events compile, and XLA gets them with their operands; without a driver, no time is known.
with tempfile.TemporaryDirectory() as folder:
    events = surface.built(folder)
    assert events.surfaces_us() < 0
for is_last, call in enumerate((surface.begin, surface.end)):
    text = call.trace(jnp.zeros((3, 2), jnp.bfloat16)).lower(lowering_platforms=("cuda",)).as_text()
    assert "@surfaces_record(%arg0)" in text and f"is_last = {is_last} : i64" in text, text
