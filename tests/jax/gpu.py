"""Checks gemm_tuned_jax.py of an exported Python folder on a GPU, and times it beside jnp.dot. Results of eager and
compiled calls, batches and gradients are held against products in float64. Prints a line for each check; the exit code
is 1 if one is wrong. That the library has no kernel is no fault, but is counted.

    gpu.py FOLDER           needs JAX with CUDA, c++, and kernels of the types and layouts to check
"""

import os
import statistics
import sys
import time
import warnings

sys.path.insert(0, sys.argv[1])
# Memory is not taken as a whole: other programs of the test machine need some.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import gemm_tuned_jax as tuned  # noqa: E402: the folder is an argument
import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import numpy as jnp  # noqa: E402

warnings.simplefilter("ignore")
generator = np.random.default_rng(1)
# Unit roundoff of a result; operands of tf32 are rounded to 11 bits.
ROUNDOFF = {"f32": 2.0**-24, "tf32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
DTYPES = {"f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8"}
# M, N, K and a batch: a large product, an odd one, a row, and more than one block in K.
SHAPES = [(512, 384, 256, 3), (77, 45, 33, 2), (1, 1024, 512, 4), (100, 72, 4096, 2)]
EPILOGUES = ("bias", "bias,relu", "bias,gelu", "residual", "row-scale,col-scale", "silu,mul")
TIMED = [(4096, 4096, 1024), (1024, 1024, 1024), (64, 4096, 4096), (2048, 128, 4096)]
failures = missing = 0


def row(name, check):
    """Prints a line for a check, which returns a text, or the error over its bound."""
    global failures, missing
    try:
        found = check()
        is_right = not isinstance(found, float) or found <= 1
        text = f"error/bound {found:.3f}" if isinstance(found, float) else found
    except tuned.NoKernelError:
        missing += 1
        is_right, text = True, "no kernel"
    except Exception as error:
        is_right, text = False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    failures += not is_right
    print(f"{'     ' if is_right else 'WRONG'} {name:58} {text}", flush=True)


def random(name, *shape):
    if name == "i8":
        return jnp.asarray(generator.integers(-128, 128, shape), "int8")
    return jnp.asarray(generator.standard_normal(shape), "float32").astype(DTYPES[name])


def wide(array):
    return np.asarray(array.astype("float32") if array.dtype == jnp.bfloat16 else array, "float64")


def turned(array, letter):
    return np.swapaxes(wide(array), -1, -2) if letter == "t" else wide(array)


def ratio(name, result, a, b, layout="nn", finish=None):
    """The largest error over its bound; products in float64 are the reference, and `finish` is done to them."""
    x, y = turned(a, layout[0]), turned(b, layout[1])
    value, size = x @ y, np.abs(x) @ np.abs(y)
    if name == "i8":
        assert result.dtype == jnp.int32
        return float(np.abs(wide(result) - value).max() != 0)
    assert str(result.dtype) == DTYPES[name] and not np.isnan(wide(result)).any()
    error = (2.0**-22 * x.shape[-1]**0.5 + (2.0**-10 if name == "tf32" else 0)) * size
    if finish is not None:
        error = 2 * (finish(value + error) - finish(value - error)).__abs__() + 1e-5 * (1 + np.abs(finish(value)))
        value = finish(value)
    return float((np.abs(wide(result) - value) / (error + 2 * ROUNDOFF[name] * np.abs(value) + 1e-30)).max())


def finished(epilogue, operands):
    """An epilogue in float64."""
    def finish(value):
        for word in epilogue.split(","):
            operand = operands.get(word.replace("-", "_"))
            if word == "row-scale":
                value = value * wide(operand)[..., :, None]
            elif word == "col-scale":
                value = value * wide(operand)
            elif word in ("bias", "residual"):
                value = value + wide(operand)
            elif word == "mul":
                value = value * wide(operand)
            else:
                value = np.asarray(tuned.ACTIVATIONS[word](jnp.asarray(value, "float32")), "float64")
        return value
    return finish


def operands_of(name, epilogue, m, n):
    kind = {"bias": (n,), "row_scale": (m,), "col_scale": (n,), "residual": (m, n), "mul": (m, n)}
    names = [word.replace("-", "_") for word in epilogue.split(",")]
    return {one: random("f32" if one.endswith("scale") else name, *kind[one]) for one in names if one in kind}


def stored(name, m, n, k, layout, lead=()):
    return (random(name, *lead, *((k, m) if layout[0] == "t" else (m, k))),
            random(name, *lead, *((n, k) if layout[1] == "t" else (k, n))))


def products():
    for name in (*ROUNDOFF, "i8"):
        options = {"compute": "tf32"} if name == "tf32" else {}
        for m, n, k, batch in SHAPES:
            for layout in ("nn", "nt", "tn", "tt"):
                at = f"{name} {layout} {m}x{n}x{k}"
                a, b = stored(name, m, n, k, layout)
                call = jax.jit(lambda a, b: tuned.matmul(a, b, layout=layout, **options))
                row(at, lambda: ratio(name, tuned.matmul(a, b, layout=layout, **options), a, b, layout))
                row(f"{at} jit", lambda: ratio(name, call(a, b), a, b, layout))
                many_a, many_b = stored(name, m, n, k, layout, (batch,))
                row(f"{at} x{batch}", lambda: ratio(name, call(many_a, many_b), many_a, many_b, layout))
                row(f"{at} vmap of b", lambda: ratio(name, jax.vmap(call, (None, 0))(a, many_b), a, many_b, layout))
                row(f"{at} vmap of a", lambda: ratio(name, jax.vmap(call, (0, None))(many_a, b), many_a, b, layout))
            if name == "i8":
                continue
            a, b = stored(name, m, n, k, "nn")
            for epilogue in EPILOGUES:
                own = operands_of(name, epilogue, m, n)
                finish = finished(epilogue, own)
                row(f"{name} {m}x{n}x{k} {epilogue}", lambda: ratio(
                    name, jax.jit(lambda a, b, own: tuned.matmul(a, b, epilogue=epilogue, **own, **options))(a, b, own), a, b,
                    finish=finish))
            bad = jnp.full_like(a, jnp.nan)
            c = random(name, m, n)
            row(f"{name} {m}x{n}x{k} alpha 0 of NaN", lambda: float(np.abs(
                wide(tuned.matmul(bad, b, c=c, alpha=0, beta=0.5, **options)) - 0.5 * wide(c)).max() != 0))


def gradients():
    for layout in ("nn", "nt", "tn", "tt"):
        for epilogue in ("", "bias,gelu"):
            m, n, k, batch = 96, 64, 80, 3
            a, b = stored("f32", m, n, k, layout)
            own = operands_of("f32", epilogue, m, n) if epilogue else {}

            def mine(a, b, own):
                return (tuned.matmul(a, b, layout=layout, epilogue=epilogue, **own) ** 2).sum()

            def theirs(a, b, own):
                x, y = (one.T if letter == "t" else one for one, letter in zip((a, b), layout))
                value = jnp.matmul(x, y, precision="highest")
                return ((jax.nn.gelu(value + own["bias"], approximate=False) if own else value) ** 2).sum()

            def worst():
                found, expected = (jax.jit(jax.grad(one, (0, 1, 2)))(a, b, own) for one in (mine, theirs))
                pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected))
                return max(float(jnp.abs(x - y).max() / (1e-4 * jnp.abs(y).max())) for x, y in pairs)

            row(f"gradients f32 {layout} {epilogue}", worst)


def timed(call, *arguments, count=50):
    """Median microseconds of a call, of nine rounds of so many calls in the order of the device."""
    jax.block_until_ready(call(*arguments))
    rounds = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(count):
            value = call(*arguments)
        jax.block_until_ready(value)
        rounds.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(rounds)


def times():
    print("\ntimes in us, compiled: the kernels, jnp.dot, and its time over theirs")
    for name in ("f32", "tf32", "bf16"):
        precision = {"f32": "highest", "tf32": "tensorfloat32"}.get(name, "default")
        options = {"compute": "tf32"} if name == "tf32" else {}
        for m, n, k in TIMED:
            a, b = stored(name, m, n, k, "nn")
            try:
                mine = timed(jax.jit(lambda a, b: tuned.matmul(a, b, **options)), a, b)
            except tuned.NoKernelError:
                print(f"      {name} {m}x{n}x{k}: no kernel")
                continue
            theirs = timed(jax.jit(lambda a, b: jnp.dot(a, b, precision=precision)), a, b)
            print(f"      {name:5} {f'{m}x{n}x{k}':16} {mine:9.2f} {theirs:9.2f} {theirs / mine:6.3f}", flush=True)


if jax.default_backend() != "gpu":
    sys.exit("JAX finds no GPU: install jax with CUDA")
for section in (products, gradients, times):
    section()
print(f"\n{failures} wrong, {missing} without a kernel")
sys.exit(failures > 0)
