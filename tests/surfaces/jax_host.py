"""Runs results/surfaces/measure.py for JAX on the host, with jax.numpy in the place of the kernels. Results are right, times are
those of the host.

    jax_host.py PROBLEMS
"""

import os
import sys
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
    FLUSHED = 1 << 16

    def __init__(self):
        self.jax, self.jnp, self.module = jax, jnp, types.SimpleNamespace(matmul=matmul)
        self.dtypes = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i8": jnp.int8}
        self.flush = jax.jit(lambda value: jnp.full(self.FLUSHED, value, jnp.uint8))


for problem in measure.lists.read(sys.argv[1]):
    print(measure.row("jax", OnHost(), problem), flush=True)
