"""Matrix products for JAX by the kernels of gemm_tuned, for JAX 0.5 and later with CUDA.

    import gemm_tuned_jax
    d = gemm_tuned_jax.matmul(a, b)                                       # also under jit, vmap and grad
    d = gemm_tuned_jax.matmul(a, b, layout="nt", epilogue="bias,gelu", bias=bias)

`matmul` is a call of XLA's foreign function interface. The first product compiles gemm_tuned_jax.cc with `c++` and the
headers of jaxlib, into this folder; the result is kept. A product that the library has no kernel for is refused when it
is traced. The workspace is a buffer of XLA. vmap makes a batch of a product, or more rows where only `a` has the new
axis. Gradients are products of the same library, and those of jax.numpy where it has no kernel; a warning says so once.
"""

import ctypes
import functools
import math
import numbers
import os
import subprocess
import tempfile
import threading
import typing
import warnings

if __package__:
    from . import gemm_tuned, gemm_tuned_arrays as arrays, gemm_tuned_library as library
else:
    import gemm_tuned
    import gemm_tuned_arrays as arrays
    import gemm_tuned_library as library

GemmTunedError, NoKernelError = gemm_tuned.GemmTunedError, gemm_tuned.NoKernelError

try:
    import jax
    import jaxlib
    import numpy
    from jax import numpy as jnp
except ModuleNotFoundError as error:
    if error.name not in ("jax", "jaxlib"):
        raise
    raise GemmTunedError("gemm_tuned_jax needs JAX, which is not installed: install jax with CUDA, such as "
                         "`pip install jax[cuda13]`") from error
if not hasattr(jax, "ffi"):
    raise GemmTunedError(f"gemm_tuned_jax needs JAX 0.5 or later, and this is {jax.__version__}: install a later one")

__all__ = ["GemmTunedError", "NoKernelError", "matmul"]

SOURCE, TARGET = "gemm_tuned_jax.cc", "gemm_tuned"
ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu-tanh": functools.partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}
# Operations whose gradients do not need the value of the product.
LINEAR = {"bias", "residual"}

_lock = threading.Lock()
_said = set()


def _say_once(text):
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


# The foreign function -----------------------------------------------------------------------------

def _build(path):
    """Compiles the handler, and puts it in its place in one step."""
    compiler = os.environ.get("CXX", "c++")
    folder, name = os.path.split(path)
    words = [compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-I", folder, "-isystem", jax.ffi.include_dir(),
             os.path.join(folder, SOURCE), "-L", folder, "-lgemm_tuned", "-Wl,-rpath,$ORIGIN", "-o"]
    shown = " ".join(f"'{word}'" if "$" in word else word for word in (*words, path))
    try:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = os.path.join(own, name)
            subprocess.run([*words, made], check=True, capture_output=True, text=True)
            os.replace(made, path)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise GemmTunedError(f"cannot compile {SOURCE} ({said}): correct that, set CXX to a compiler of C++17, or run "
                             f"`{shown}`") from error


@functools.lru_cache(maxsize=None)
def _register():
    """Makes the handler known to XLA, once."""
    with _lock:
        gemm_tuned.version()
        path = os.path.join(library.FOLDER, f"libgemm_tuned_jax-{jaxlib.__version__}.so")
        if not os.path.exists(path):
            _build(path)
        try:
            handler = ctypes.CDLL(path)
        except OSError as error:
            raise GemmTunedError(f"cannot load `{path}` ({error}): delete it, so that it is made again") from error
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler.gemm_tuned_jax_multiply), platform="CUDA")
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler.gemm_tuned_jax_refuse), platform="cpu")


class _Work(typing.NamedTuple):
    """A product without its arrays: epilogue(alpha op(a) op(b) + beta c). `names` are the operands behind a and b."""

    layout: str
    epilogue: str
    names: tuple
    alpha: float
    beta: float
    out: int
    compute: typing.Optional[str]

    def shape(self, a, b):
        """M, N and K."""
        (m, k), n = a.shape[-2:], b.shape[-1]
        if self.layout[0] == "t":
            m, k = k, m
        return m, b.shape[-2] if self.layout[1] == "t" else n, k


def _dtype(number):
    return jnp.dtype(arrays.ARRAY_NAMES[number])


def _call(work, a, b, *others):
    """The product of matrices, or of batches with one leading axis. A matrix beside a batch serves all its products."""
    m, n, k = work.shape(a, b)
    batch = next((one.shape[0] for one in (a, b) if one.ndim == 3), None)
    shape = (m, n) if batch is None else (batch, m, n)
    if 0 in shape:
        return jnp.zeros(shape, _dtype(work.out))
    strides = [m * k if a.ndim == 3 else 0, k * n if b.ndim == 3 else 0]
    dtypes = [arrays.ARRAY_DTYPES[str(one.dtype)] for one in (a, b)]
    fields = dict(zip(("dtype", "dtype_b", "dtype_d"), (*dtypes, work.out)))
    fields["compute"] = library.number_of(library.COMPUTES, work.compute, "compute type")
    fields.update(transpose_a=int(work.layout[0] == "t"), transpose_b=int(work.layout[1] == "t"), m=m, n=n, k=k,
                  batch=batch or 1, stride_a=strides[0], stride_b=strides[1])
    # The handler reads the fields in this order.
    attribute = numpy.array(list(fields.values()), numpy.int64)
    problem = library.checked(library.Problem(
        work.epilogue, alignment=library.ALIGNMENT, stride_d=m * n if batch else 0, **fields))
    # With an alpha of 0, a product of zeros stands for this one, as for a K of 0.
    if work.alpha == 0:
        problem.k = 0
    count = library.chosen(None, problem).workspace_bytes
    # The handler aligns the workspace.
    count += library.ALIGNMENT if count else 0
    _register()
    results = (jax.ShapeDtypeStruct(shape, _dtype(work.out)), jax.ShapeDtypeStruct((count,), jnp.uint8))
    return jax.ffi.ffi_call(TARGET, results)(
        a, b, *others, problem=attribute, epilogue=work.epilogue, operands=",".join(work.names),
        factors=numpy.array([work.alpha, work.beta], numpy.float64))[0]


# Batches ------------------------------------------------------------------------------------------

def _rows(work, batched):
    """Whether a batch of `a` alone is one matrix with more rows."""
    shared = {"bias", "col_scale"}
    return work.layout[0] == "n" and all((name in shared) != has_axis for name, has_axis in zip(work.names, batched))


@functools.lru_cache(maxsize=4096)
def _mapped(work):
    """The product, which vmap makes a batch of."""
    @jax.custom_batching.custom_vmap
    def product(a, b, *others):
        return _call(work, a, b, *others)

    @product.def_vmap
    def rule(count, batched, a, b, *others):
        m, n, _ = work.shape(a, b)
        on_a, on_b, *on_others = batched
        rank_a, rank_b = a.ndim - on_a, b.ndim - on_b
        if on_a and not on_b and rank_a == rank_b == 2 and _rows(work, on_others):
            rows = [one.reshape(count * m, *one.shape[2:]) if has_axis else one for one, has_axis in zip(others, on_others)]
            return product(a.reshape(count * m, a.shape[2]), b, *rows).reshape(count, m, n), True
        inner = a.shape[on_a] if rank_a == 3 else b.shape[on_b] if rank_b == 3 else None
        a, b = (one if rank == 2 and not has_axis else _matrices(one, has_axis, rank, count, inner)
                for one, rank, has_axis in ((a, rank_a, on_a), (b, rank_b, on_b)))
        if not on_a and not on_b and inner is None:
            a = jnp.broadcast_to(a, (count, *a.shape))
        each = [_joined(one, has_axis, count, inner) for one, has_axis in zip(others, on_others)]
        value = product(a, b, *each)
        return (value if inner is None else value.reshape(count, inner, m, n)), True

    return product


def _matrices(one, has_axis, rank, count, inner):
    """A matrix or a batch under vmap as a batch."""
    one = one if has_axis else one[None]
    if inner is None:
        return one
    own = one if rank == 3 else one[:, None]
    return jnp.broadcast_to(own, (count, inner, *own.shape[2:])).reshape(count * inner, *own.shape[2:])


def _joined(one, has_axis, count, inner):
    """An operand of the epilogue, which has the axis of an inner batch already, for a batch."""
    one = jnp.broadcast_to(one if has_axis else one[None], (count, *(one.shape[1:] if has_axis else one.shape)))
    return one if inner is None else one.reshape(count * inner, *one.shape[2:])


# Gradients ----------------------------------------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(work, a, b, others):
    return _mapped(work)(a, b, *others)


def _forward(work, a, b, others):
    return _product(work, a, b, others), (a, b, others)


def _by_jax(work, a, b):
    """The product by jax.numpy, where the library has no kernel."""
    x = jnp.swapaxes(a, -1, -2) if work.layout[0] == "t" else a
    y = jnp.swapaxes(b, -1, -2) if work.layout[1] == "t" else b
    value = jnp.matmul(x, y, precision="highest", preferred_element_type=jnp.promote_types(_dtype(work.out), jnp.float32))
    return (work.alpha * value).astype(_dtype(work.out))


def _plain(work, a, b, layout=None):
    """alpha op(a) op(b), by a kernel where there is one."""
    own = work._replace(layout=layout or work.layout, epilogue="", names=(), beta=0.0)
    try:
        return _mapped(own)(a, b)
    except NoKernelError as error:
        _say_once(f"jax.numpy multiplies in a backward pass where gemm_tuned cannot, first: {error}")
        return _by_jax(own, a, b)


def _finished(work, value, others):
    """The epilogue of a product by jax.numpy, and beta c before it."""
    named = dict(zip(work.names, others))
    dtype, value = value.dtype, value.astype(jnp.float32)
    if "c" in named:
        value = value + work.beta * named["c"].astype(jnp.float32)
    for word in filter(None, work.epilogue.split(",")):
        operand = named.get(gemm_tuned.OPERANDS.get(word, ""))
        if word in ACTIVATIONS:
            value = ACTIVATIONS[word](value)
        elif word == "row-scale":
            value = value * operand[..., :, None]
        elif word == "col-scale":
            value = value * operand[..., None, :]
        elif word == "bias":
            value = value + operand[..., None, :].astype(jnp.float32)
        else:
            operand = operand.astype(jnp.float32)
            value = value + operand if word == "residual" else value * operand
    return value.astype(dtype)


def _backward(work, saved, gradient):
    a, b, others = saved
    words = set(filter(None, work.epilogue.split(",")))
    if words <= LINEAR:
        value = jnp.zeros_like(gradient)
    else:
        value = _plain(work, a, b)
    _, pull = jax.vjp(functools.partial(_finished, work), value, others)
    inner, of_others = pull(gradient)
    inner = inner.astype(a.dtype)
    own = work._replace(out=arrays.ARRAY_DTYPES[str(a.dtype)])
    transpose_a, transpose_b = (letter == "t" for letter in work.layout)
    if transpose_a:
        of_a = _plain(own, b, inner, "tt" if transpose_b else "nt")
    else:
        of_a = _plain(own, inner, b, "nn" if transpose_b else "nt")
    if transpose_b:
        of_b = _plain(own, inner, a, "tt" if transpose_a else "tn")
    else:
        of_b = _plain(own, a, inner, "nn" if transpose_a else "tn")
    # A matrix beside a batch gets the sum of all gradients.
    of_a, of_b = (sums.sum(0, dtype=jnp.float32) if sums.ndim > one.ndim else sums for sums, one in ((of_a, a), (of_b, b)))
    return of_a.astype(a.dtype), of_b.astype(b.dtype), of_others


_product.defvjp(_forward, _backward)
_compiled = jax.jit(_product, static_argnums=0)


# Calls --------------------------------------------------------------------------------------------

def _refuse_unless(holds, text):
    if not holds:
        raise GemmTunedError(text)


def _factor(value, name):
    _refuse_unless(isinstance(value, numbers.Real), f"{name} is {value!r}: give a number that is known when it is traced")
    return float(value)


def matmul(a, b, *, layout="nn", epilogue=None, bias=None, row_scale=None, col_scale=None, residual=None, mul=None,
           c=None, alpha=1, beta=None, out_dtype=None, compute=None):
    """Computes epilogue(alpha * op(a) @ op(b) + beta * c).

    `layout` says how operands are stored: with "nt", `b` has shape (N, K) and is used transposed. `a` and `b` are
    matrices, or batches of them with equal leading axes; a matrix beside a batch serves all its products. `c` is an
    array of the shape and the dtype of the result, with a `beta` of 1 where none is given.

    `epilogue` has operations in their order, as in "bias,gelu": bias (N values), row-scale (M of float32), col-scale
    (N of float32), relu, gelu, gelu-tanh, silu, residual and mul (arrays of the shape of the result). The result has
    the dtype of the operands, and int32 for int8, or `out_dtype`. `compute` names another compute type than that of
    the dtype, such as "tf32". Alpha and beta are numbers, not arrays."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    _refuse_unless(layout in library.LAYOUTS, f"`{layout}` is no layout: choose one of {', '.join(library.LAYOUTS)}")
    for name, one in (("a", a), ("b", b)):
        _refuse_unless(one.ndim >= 2, f"{name} has shape {one.shape}: give a matrix or a batch of matrices")
        _refuse_unless(str(one.dtype) in arrays.ARRAY_DTYPES,
                       f"{name} is of {one.dtype}: give float32, float16, bfloat16, int32 or int8")
    _refuse_unless(a.dtype == b.dtype or compute is not None,
                   f"a is of {a.dtype} and b of {b.dtype}: give both of one dtype, or name the compute type")
    out = str(jnp.dtype(out_dtype)) if out_dtype is not None else "int32" if a.dtype == jnp.int8 else str(a.dtype)
    _refuse_unless(out in arrays.ARRAY_DTYPES, f"out_dtype is {out}: give float32, float16, bfloat16, int32 or int8")
    _refuse_unless(c is not None or not beta, "beta needs the array that it multiplies: pass it as `c`")
    beta = 0.0 if c is None else _factor(1 if beta is None else beta, "beta")
    given = {"bias": bias, "row_scale": row_scale, "col_scale": col_scale, "residual": residual, "mul": mul}
    epilogue = ",".join(word.strip() for word in (epilogue or "").split(",")) if epilogue else ""
    named = gemm_tuned._others(epilogue, given, c if beta else None, beta)
    work = _Work(layout, epilogue, tuple(named), _factor(alpha, "alpha"), beta, arrays.ARRAY_DTYPES[out], compute)
    m, n, k = work.shape(a, b)
    lead = a.shape[:-2] or b.shape[:-2]
    _refuse_unless(k == b.shape[-1 if layout[1] == "t" else -2] and all(one.shape[:-2] in ((), lead) for one in (a, b)),
                   f"a {a.shape} and b {b.shape} of layout {layout} have no product")
    # A batch of `a` beside one matrix is a matrix with more rows.
    is_rows = bool(a.shape[:-2]) and b.ndim == 2 and layout[0] == "n"
    rows, batch = (math.prod(lead) * m, ()) if is_rows else (m, (math.prod(lead),) if lead else ())
    others = tuple(_operand(name, one, work, lead, (m, n), batch, rows) for name, one in named.items())
    if is_rows:
        a = a.reshape(rows, k)
    a, b = (one.reshape(*batch, *one.shape[-2:]) if one.ndim > 2 else one for one in (a, b))
    differentiable = all(jnp.issubdtype(one.dtype, jnp.floating) for one in (a, b, *others))
    value = _compiled(work, a, b, others) if differentiable else _mapped(work)(a, b, *others)
    return value.reshape(*lead, m, n)


def _operand(name, array, work, lead, shape, batch, rows):
    """An operand of the epilogue as the kernels read it."""
    (m, n), array = shape, jnp.asarray(array)
    own = {"bias": (n,), "col_scale": (n,), "row_scale": (m,)}.get(name, (m, n))
    dtype = jnp.dtype("float32") if name.endswith("_scale") else _dtype(work.out)
    fits = array.dtype == dtype and array.shape in ((*lead, *own), own)
    # Rows that are joined share the values of a column.
    shares = name in ("bias", "col_scale") and rows != m
    _refuse_unless(fits and not (shares and array.shape != own),
                   f"{name} is {array.shape} {array.dtype}: give an array of shape {own if shares else (*lead, *own)} of "
                   f"{dtype}")
    if shares:
        return array
    array = jnp.broadcast_to(array, (*lead, *own))
    return array.reshape(rows, *own[1:]) if rows != m else array.reshape(*batch, *own)
