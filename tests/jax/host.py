"""Checks gemm_tuned_jax.py of an exported Python folder without a GPU: the real JAX, which traces and lowers for CUDA, and
a product on the host in the place of the library's. Needs JAX, cc, c++ and the library of the folder.

    host.py FOLDER
"""

import ctypes
import glob
import os
import subprocess
import sys
import tempfile
import types
import warnings

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
os.environ["JAX_PLATFORMS"] = "cpu"
import gemm_tuned  # noqa: E402: the folder is an argument
import gemm_tuned_jax as tuned  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import numpy as jnp  # noqa: E402

assert not glob.glob(f"{FOLDER}/libgemm_tuned_jax*"), "an import compiles the handler"
generator = np.random.default_rng(1)


def random(*shape, dtype="float32"):
    if dtype == "int8":
        return jnp.asarray(generator.integers(-99, 99, shape), dtype)
    return jnp.asarray(generator.standard_normal(shape), dtype)


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (gemm_tuned.GemmTunedError, jax.errors.JaxRuntimeError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"nothing says `{words}`")


def handler():
    """The handler compiles without a warning, and an error of the compiler is told with the command."""
    subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", FOLDER, "-isystem",
                    jax.ffi.include_dir(), f"{FOLDER}/gemm_tuned_jax.cc"], check=True)
    os.environ["CXX"] = "/nonexistent/c++"
    refused("set CXX to a compiler of C++17, or run `/nonexistent/c++ -std=c++17", tuned._register)
    del os.environ["CXX"]
    assert not glob.glob(f"{FOLDER}/libgemm_tuned_jax*")


def lowered():
    """What a product becomes for CUDA, with the arrays of the winner that every test export has."""
    a, b = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((44, 23), (23, 31)))
    assert jax.eval_shape(tuned.matmul, a, b) == jax.ShapeDtypeStruct((44, 31), "float32")
    many = jax.ShapeDtypeStruct((5, 44, 23), "float32")
    each = jax.ShapeDtypeStruct((5, 23, 31), "float32")

    def text(call, *arguments):
        return jax.jit(call).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()

    for call, arguments, numbers in (
        (tuned.matmul, (a, b), [0, 0, 0, -1, 0, 0, 44, 31, 23, 1, 0, 0]),
        # More rows, and a batch.
        (tuned.matmul, (many, b), [0, 0, 0, -1, 0, 0, 220, 31, 23, 1, 0, 0]),
        (jax.vmap(tuned.matmul, (0, None)), (many, b), [0, 0, 0, -1, 0, 0, 220, 31, 23, 1, 0, 0]),
        (tuned.matmul, (many, each), [0, 0, 0, -1, 0, 0, 44, 31, 23, 5, 44 * 23, 23 * 31]),
        (jax.vmap(tuned.matmul), (many, each), [0, 0, 0, -1, 0, 0, 44, 31, 23, 5, 44 * 23, 23 * 31]),
        (jax.vmap(tuned.matmul, (None, 0)), (a, each), [0, 0, 0, -1, 0, 0, 44, 31, 23, 5, 0, 23 * 31]),
    ):
        module = text(call, *arguments)
        shown = ", ".join(map(str, numbers))
        assert "stablehlo.custom_call @gemm_tuned(" in module and f"problem = dense<[{shown}]>" in module, module
    both = text(lambda a, b, c: tuned.matmul(a, b, c=c, alpha=0, beta=0.5), a, b, jax.eval_shape(tuned.matmul, a, b))
    assert 'operands = "c"' in both and "factors = dense<[0.000000e+00, 5.000000e-01]>" in both, both
    assert "custom_call @gemm_tuned" not in text(tuned.matmul, jax.ShapeDtypeStruct((0, 23), "float32"), b)


def executed():
    """The handler reads buffers and attributes as the module passes them. On the host, where XLA has no stream of a GPU, and
    with library.c in the place of the library."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        source = open(f"{FOLDER}/gemm_tuned_jax.cc").read()
        for line, other in ((".Ctx<ffi::PlatformStream<void *>>()", ""), ("multiply(void *stream, ", "multiply("),
                            ("constexpr std::uintptr_t ALIGNMENT", "void *const stream = nullptr;\nconstexpr std::uintptr_t ALIGNMENT")):
            assert source.count(line) == 1, line
            source = source.replace(line, other)
        with open(f"{folder}/handler.cc", "w") as file:
            file.write(source)
        shared = ["-shared", "-fPIC", "-I", FOLDER, "-Wall", "-Wextra", "-Werror"]
        subprocess.run(["cc", *shared, f"{here}/library.c", "-o", f"{folder}/library.so"], check=True)
        subprocess.run(["c++", "-std=c++17", *shared, "-isystem", jax.ffi.include_dir(), f"{folder}/handler.cc",
                        f"{folder}/library.so", "-o", f"{folder}/handler.so"], check=True)
        handler = ctypes.CDLL(f"{folder}/handler.so").gemm_tuned_jax_multiply
    before = tuned.TARGET, tuned._register, gemm_tuned.library.chosen
    tuned.TARGET, tuned._register = "gemm_tuned_on_host", lambda: None
    gemm_tuned.library.chosen = lambda handle, problem: types.SimpleNamespace(workspace_bytes=1000)
    jax.ffi.register_ffi_target(tuned.TARGET, jax.ffi.pycapsule(handler), platform="cpu")
    m, n, k, batch = 5, 7, 6, 3
    for layout in gemm_tuned.library.LAYOUTS:
        a, b = random(*((k, m) if layout[0] == "t" else (m, k))), random(*((n, k) if layout[1] == "t" else (k, n)))
        each = random(batch, *b.shape)
        named = {"bias": random(n), "residual": random(m, n), "c": random(m, n)}
        for options in ({}, {"epilogue": "bias,residual", "alpha": 0.5, "beta": -2.0, **named}):
            close(jax.jit(lambda a, b: tuned.matmul(a, b, layout=layout, **options))(a, b), plain(a, b, layout=layout, **options))
            call = jax.vmap(lambda b: tuned.matmul(a, b, layout=layout, **options))
            close(call(each), jax.vmap(lambda b: plain(a, b, layout=layout, **options))(each))
    refused("the product failed: bad argument", lambda: tuned.matmul(*(random(8, 8, dtype="float16") for _ in "ab")))
    tuned.TARGET, tuned._register, gemm_tuned.library.chosen = before
    jax.clear_caches()
    tuned._mapped.cache_clear()


def errors():
    a, b = random(44, 23), random(23, 31)
    refused("JAX runs this on the host: install jax with CUDA", lambda: tuned.matmul(a, b).block_until_ready())
    refused("have no product", tuned.matmul, a, a)
    refused("have no product", tuned.matmul, random(2, 4, 8), random(3, 8, 4))
    refused("`xx` is no layout", tuned.matmul, a, b, layout="xx")
    refused("give float32", tuned.matmul, a.astype("complex64"), b)
    refused("give both of one dtype", tuned.matmul, a.astype("float16"), b)
    refused("a number that is known when it is traced", tuned.matmul, a, b, alpha=jnp.float32(2))
    refused("pass it as `c`", tuned.matmul, a, b, beta=1)
    refused("needs `bias`", tuned.matmul, a, b, epilogue="bias")
    refused("bias is (44,) float32: give an array of shape (31,)", tuned.matmul, a, b, epilogue="bias", bias=random(44))
    refused("no kernel for 44x31x23", tuned.matmul, a, b, epilogue="silu,relu")
    refused("a has shape (23,)", tuned.matmul, a[0], b)


# In the place of the library ----------------------------------------------------------------------

calls = []


def product(work, a, b, *others):
    """In the place of _call: refuses what that refuses, and multiplies on the host."""
    batch = next((one.shape[0] for one in (a, b) if one.ndim == 3), None)
    assert all(one.ndim == 2 or one.shape[0] == batch for one in (a, b))
    m, n, k = work.shape(a, b)
    lead = () if batch is None else (batch,)
    for name, one in zip(work.names, others):
        own = {"bias": (n,), "col_scale": (n,), "row_scale": (m,)}.get(name, (m, n))
        assert one.shape == (*lead, *own), (name, one.shape)
    calls.append((m, n, k, batch, work.layout, work.epilogue))
    value = tuned._by_jax(work._replace(out=gemm_tuned.library.F32), a, b)
    if work.out == gemm_tuned.library.I32:
        value = jnp.matmul(a.astype("int32"), b.astype("int32"))
    return tuned._finished(work, value, others).astype(tuned._dtype(work.out))


def plain(a, b, layout="nn", alpha=1.0, c=None, beta=1.0, epilogue="", **named):
    """The same by jax.numpy alone, for arrays of any leading axes."""
    x, y = (jnp.swapaxes(one, -1, -2) if letter == "t" else one for one, letter in zip((a, b), layout))
    value = alpha * jnp.matmul(x, y, precision="highest")
    value = value if c is None else value + beta * c
    for word in filter(None, epilogue.split(",")):
        operand = named.get(word.replace("-", "_"))
        if word in tuned.ACTIVATIONS:
            value = tuned.ACTIVATIONS[word](value)
        elif word == "row-scale":
            value = value * operand[..., :, None]
        elif word in ("col-scale", "mul", "residual"):
            value = value + operand if word == "residual" else value * (operand[..., None, :] if word == "col-scale" else operand)
        else:
            value = value + operand[..., None, :]
    return value


def close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype, (one.shape, other.shape, one.dtype, other.dtype)
        np.testing.assert_allclose(np.asarray(one, "float64"), np.asarray(other, "float64"), rtol=2e-4, atol=2e-4)


def stand_in():
    tuned._call = product
    m, n, k, batch = 5, 7, 6, 3
    words = "row-scale,bias,gelu,residual"
    for layout in gemm_tuned.library.LAYOUTS:
        stored_a = (k, m) if layout[0] == "t" else (m, k)
        stored_b = (n, k) if layout[1] == "t" else (k, n)
        a, b, many, each = random(*stored_a), random(*stored_b), random(batch, *stored_a), random(batch, *stored_b)
        named = {"row_scale": random(m), "bias": random(n), "residual": random(m, n)}
        full = {name: random(batch, *one.shape) for name, one in named.items()}
        for options in ({}, {"epilogue": words}, {"epilogue": "gelu-tanh"}, {"alpha": -0.5}):
            own = named if "bias" in options.get("epilogue", "") else {}
            wide = full if own else {}
            for x, y in ((a, b), (many, b), (a, each), (many, each)):
                lead = x.ndim + y.ndim > 4
                # A vector of the rows of several matrices is that of each.
                operands = wide if lead and not (x.ndim == 3 and y.ndim == 2 and layout[0] == "n") else own

                def loss(call, x, y, operands):
                    return (call(x, y, layout=layout, **options, **operands) ** 2).sum()

                close(tuned.matmul(x, y, layout=layout, **options, **operands),
                      plain(x, y, layout=layout, **options, **operands))
                gradients = (jax.grad(lambda *given: loss(call, *given), (0, 1, 2)) for call in (tuned.matmul, plain))
                mine, theirs = (gradient(x, y, operands) for gradient in gradients)
                close(mine, theirs)
            # vmap of each argument, of a batch, and of gradients.
            for axes, x, y in (((0, None), many, b), ((None, 0), a, each), ((0, 0), many, each)):
                for operands, axis in ((own, None), (wide, 0)):
                    def call(f):
                        return jax.vmap(lambda x, y, z: f(x, y, layout=layout, **options, **z), (*axes, axis))
                    close(call(tuned.matmul)(x, y, operands), call(plain)(x, y, operands))
                    def slope(f):
                        return jax.grad(lambda *given: (call(f)(*given) ** 2).sum(), (0, 1, 2))
                    close(slope(tuned.matmul)(x, y, operands), slope(plain)(x, y, operands))
            twice = random(2, batch, *stored_a)
            call = jax.vmap(lambda x: tuned.matmul(x, each, layout=layout))
            close(call(twice), jax.vmap(lambda x: plain(x, each, layout=layout))(twice))
            call = jax.vmap(jax.vmap(lambda x, y: tuned.matmul(x, y, layout=layout)), (0, None))
            close(call(twice, each), jax.vmap(jax.vmap(lambda x, y: plain(x, y, layout=layout)), (0, None))(twice, each))
    c = random(5, 7)
    a, b = random(5, 6), random(6, 7)
    close(jax.grad(lambda c: tuned.matmul(a, b, c=c, beta=0.5, alpha=0).sum())(c), jnp.full((5, 7), 0.5))
    whole = [random(*shape, dtype="int8") for shape in ((5, 6), (6, 7))]
    close(tuned.matmul(*whole), jnp.matmul(*(one.astype("int32") for one in whole)))
    half = [one.astype("bfloat16") for one in (a, b)]
    assert tuned.matmul(*half).dtype == jnp.bfloat16 and tuned.matmul(*half, out_dtype="float32").dtype == jnp.float32
    assert [one.dtype for one in jax.grad(lambda *x: tuned.matmul(*x).astype("float32").sum(), (0, 1))(*half)] == ["bfloat16"] * 2
    assert tuned.matmul(a[:, :0], b[:0]).shape == (5, 7)


def missing():
    """A product of a backward pass without a kernel is left to jax.numpy, with one warning."""
    def only_forward(work, a, b, *others):
        if work.layout != "nn":
            raise gemm_tuned.NoKernelError("the library has no kernel")
        return product(work, a, b, *others)

    tuned._call = only_forward
    jax.clear_caches()
    tuned._mapped.cache_clear()
    a, b = random(5, 6), random(6, 7)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        close(jax.grad(lambda a: tuned.matmul(a, b).sum())(a), jax.grad(lambda a: plain(a, b).sum())(a))
    assert len([one for one in told if "jax.numpy multiplies in a backward pass" in str(one.message)]) == 1, told


for check in (handler, lowered, errors, executed, stand_in, missing):
    check()
print("right")
