"""Matrix products on NVIDIA GPUs by kernels that were tuned with gemm-tune.

    import gemm_tuned
    d = gemm_tuned.matmul(a, b)        # PyTorch tensors or CuPy arrays on an NVIDIA GPU
    gemm_tuned.patch_linear(model)     # nn.Linear modules of a PyTorch model: see gemm_tuned_torch.py

`matmul` computes alpha * a @ b + beta * out, and an epilogue of it, on the current stream of PyTorch or CuPy. Operands
are matrices or batches of matrices with contiguous rows or columns; padded rows and transposed views are used without
a copy. The result has the dtype of the operands, as under autocast; int8 gives int32.
Nothing is loaded and no GPU is needed before the first call. With GEMM_TUNED_MEASURE=1 in the environment, the first
call of a problem that was not tuned times the three best kernels and remembers the fastest (see gemm_tuned.h). The
module needs the NVIDIA driver, the library beside it (libgemm_tuned.so), and no package besides the one of its arrays.
"""

import ctypes
import functools
import importlib
import operator
import struct

if __package__:
    from . import gemm_tuned_arrays as arrays, gemm_tuned_library as library
else:
    import gemm_tuned_arrays as arrays
    import gemm_tuned_library as library

__all__ = ["GemmTunedError", "NoKernelError", "kernel_for", "matmul", "version"]

GemmTunedError, NoKernelError = library.GemmTunedError, library.NoKernelError
kernel_for, version = library.kernel_for, library.version
# Looked up in every call.
ALIGNMENT, adapters = library.ALIGNMENT, arrays.adapters
# Operations of epilogues with an operand: the argument that is it.
OPERANDS = {"bias": "bias", "row-scale": "row_scale", "col-scale": "col_scale", "residual": "residual", "mul": "mul"}
# Bytes of the workspace that is reserved for a stream of PyTorch, which keeps as much for cuBLAS. Larger ones are arrays of
# a call.
RESERVED_BYTES = 32 << 20
# Calls that are remembered; more of them are prepared anew.
MAX_CALLS = 4096
# Names that gemm_tuned_torch.py has, which imports PyTorch.
TORCH_NAMES = ("Patch", "TunedLinear", "addmm", "bmm", "linear", "mm", "patch_linear")


def __getattr__(name):
    if name not in TORCH_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    beside = f"{__package__}.gemm_tuned_torch" if __package__ else "gemm_tuned_torch"
    try:
        value = getattr(importlib.import_module(beside), name)
        # The next time it is found at once.
        return globals().setdefault(name, value)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise GemmTunedError(f"`gemm_tuned.{name}` needs PyTorch, which is not installed: install torch, or call "
                             "gemm_tuned.matmul with CuPy arrays") from error


# gemm_tuned_operands: its size, and the addresses of a, b, d, alpha, beta, c, bias, row_scale, col_scale, residual and
# mul. Bytes are packed in less than half the time of a ctypes structure.
_OPERANDS = struct.Struct("12N")
# Whether a workspace is reserved, by the device and the stream.
_reserved = {}
_calls = {}


class _Call:
    """A product of arrays of known types, shapes and strides, prepared once: its problem, and the workspace of
    its kernel. `options` are the dtype of the result, the compute type and the epilogue; `others` are C and the
    operands of the epilogue by their names."""

    def __init__(self, adapter, of_a, of_b, of_out, alignment, options, others):
        (a_batch, (m, k), a_strides, stride_a), (b_batch, (b_rows, n), b_strides, stride_b) = (
            arrays.matrix_of("a", of_a), arrays.matrix_of("b", of_b))
        out_dtype, compute, epilogue = options
        others = dict(others)
        batches = {batch for batch in (a_batch, b_batch) if batch is not None}
        if of_a[0] != of_b[0] or k != b_rows or len(batches) > 1:
            raise GemmTunedError(f"a {tuple(of_a[2])} {of_a[1]} on GPU {of_a[0]} and b {tuple(of_b[2])} "
                                 f"{of_b[1]} on GPU {of_b[0]} have no product")
        if of_a[1] != of_b[1] and compute is None:
            raise GemmTunedError(f"a is of {of_a[1]} and b of {of_b[1]}: give both of one dtype, as autocast does, or "
                                 "name the compute type")
        self.device = of_a[0]
        self.shape = (*batches, m, n)
        # Without elements of out, or of a and b: nothing is done, or out is the epilogue of beta * out.
        self.is_nothing, self.is_empty = 0 in self.shape, k == 0
        dtype, dtype_b = arrays.ARRAY_DTYPES[str(of_a[1])], arrays.ARRAY_DTYPES[str(of_b[1])]
        if of_out is not None and out_dtype is not None:
            raise GemmTunedError("out has a dtype already: give either out or out_dtype")
        if of_out is not None:
            self.dtype = arrays.ARRAY_DTYPES.get(str(of_out[1]))
        elif out_dtype is not None:
            self.dtype = arrays.ARRAY_DTYPES.get(str(out_dtype), library.DTYPES.get(out_dtype))
        else:
            self.dtype = library.I32 if dtype == library.I8 else dtype
        if self.dtype is None:
            raise GemmTunedError(f"out is of {out_dtype if of_out is None else of_out[1]}: give float32, float16, "
                                 "bfloat16 or int32")
        if of_out is None:
            name = arrays.ARRAY_NAMES[self.dtype]
            of_out = (of_a[0], name, self.shape, (m * n, n, 1)[-len(self.shape):])
        _, out_shape, out_strides, stride_d = arrays.matrix_of("out", of_out)
        transposed, ldd = arrays.stored("out", out_shape, out_strides)
        if of_out[0] != of_a[0] or tuple(of_out[2]) != self.shape or transposed:
            raise GemmTunedError(f"out is {tuple(of_out[2])} {of_out[1]} on GPU {of_out[0]}: give an array "
                                 f"of shape {self.shape} on GPU {self.device} with contiguous rows")
        (transpose_a, lda), (transpose_b, ldb) = (
            arrays.stored("a", (m, k), a_strides), arrays.stored("b", (k, n), b_strides))
        fields = self.stored_c(others.get("c"), of_out)
        for name, described in others.items():
            if name != "c":
                arrays.check_operand(name, described, of_out)
        self.problem = library.checked(library.Problem(
            epilogue, dtype=dtype, dtype_b=dtype_b, dtype_d=self.dtype,
            compute=library.number_of(library.COMPUTES, compute, "compute type"), transpose_a=transpose_a,
            transpose_b=transpose_b, alignment=alignment, m=m, n=n, k=k, batch=next(iter(batches), 1),
            lda=lda, ldb=ldb, ldd=ldd, stride_a=stride_a, stride_b=stride_b, stride_d=stride_d, **fields))
        self.adapter, self.stream, self.may_reserve = adapter, adapter.stream, adapter.may_reserve
        self.handle = library.handle_of(self.device)
        # Known after the first call outside of a capture.
        self.workspace = None
        # What the library takes, made once.
        self.reference = ctypes.addressof(self.problem)
        self.run = library.loaded().gemm_tuned_run

    def stored_c(self, of_c, of_out):
        """The rows and the stride of C, where it has an array of its own."""
        if of_c is None:
            return {}
        _, shape, strides, stride_c = arrays.matrix_of("c", of_c)
        transposed, ldc = arrays.stored("c", shape, strides)
        is_alike = of_c[0] == of_out[0] and arrays.ARRAY_DTYPES.get(str(of_c[1])) == self.dtype
        if not is_alike or tuple(of_c[2]) != self.shape or transposed:
            raise GemmTunedError(f"c is {tuple(of_c[2])} {of_c[1]} on GPU {of_c[0]}: give an array of shape "
                                 f"{self.shape} of the dtype of out on GPU {self.device} with contiguous rows")
        return {"ldc": ldc, "stride_c": stride_c}

    def first_workspace(self, operands, stream):
        """The workspace of the kernel, which is measured before where the environment says so."""
        status = library.loaded().gemm_tuned_measure(self.handle, self.reference, operands, stream)
        if status != library.NOT_NOW:
            library.must(status, "measuring the product")
        count = library.chosen(self.handle, self.problem).workspace_bytes
        if status != library.NOT_NOW:
            self.workspace = count
        return count

    def space(self, count):
        """A workspace of `count` bytes, its address, and its bytes: where memory is missing, of the best kernel that
        needs less."""
        while count:
            try:
                space = self.adapter.workspace(count, self.device)
                return space, self.adapter.address(space), count
            except self.adapter.out_of_memory:
                count = library.chosen(self.handle, self.problem, count - 1).workspace_bytes
        return None, None, 0

    def reserve(self, queue):
        """Reserves a workspace for a stream, once; whether there is one. Calls that lend none use it."""
        if not self.may_reserve(self.device):
            return False
        known = _reserved.get((self.device, queue))
        if known is None:
            status = library.loaded().gemm_tuned_reserve(self.handle, queue, RESERVED_BYTES)
            known = _reserved[self.device, queue] = status == 0
        return known

    def launch(self, a, b, out, alpha=1, beta=0, c=0, bias=0, row_scale=0, col_scale=0, residual=0, mul=0):
        """Queues the product of what lies at these addresses on the current stream."""
        if self.is_nothing:
            return
        if not (out and (self.is_empty or (a and b))):
            raise GemmTunedError("an address is null: give arrays with memory")
        alpha_at = beta_at = 0
        if alpha != 1 or beta != 0:
            scalars = _scalar(alpha, self.dtype, "alpha"), _scalar(beta, self.dtype, "beta")
            alpha_at, beta_at = map(ctypes.addressof, scalars)
        operands = _OPERANDS.pack(96, a, b, out, alpha_at, beta_at, c, bias, row_scale, col_scale, residual, mul)
        queue = self.stream(self.device)
        space, place, count = None, None, self.workspace
        if count != 0:
            if self.is_empty and not self.problem.epilogue and beta in (0, 1):
                count = 0
            elif count is None:
                count = self.first_workspace(operands, queue)
            if count > RESERVED_BYTES or count and not self.reserve(queue):
                space, place, count = self.space(count)
        status = self.run(self.handle, self.reference, operands, place, count, queue)
        if status != 0:
            library.must(status, "the product")


def prepared(adapter, key):
    """The call of a key: descriptions of a, b and out or None, the alignment of their addresses, options, and the other
    arrays, as _Call takes them."""
    call = _calls.get(key)
    if call is None:
        call = _Call(adapter, *key)
        if len(_calls) >= MAX_CALLS:
            _calls.clear()
        _calls[key] = call
    return call


def _scalar(value, dtype, name):
    """A factor as a kernel takes it."""
    try:
        if dtype != library.I32:
            return ctypes.c_float(value)
        whole = operator.index(value)
    except TypeError as error:
        wanted = "a whole number" if dtype == library.I32 else "a number"
        raise GemmTunedError(f"{name} is {value!r}: give {wanted}") from error
    if not -1 << 31 <= whole < 1 << 31:
        raise GemmTunedError(f"{name} is {value}: give a number of 32 bits")
    return ctypes.c_int(whole)


@functools.lru_cache(maxsize=MAX_CALLS)
def _needed(epilogue):
    """The arguments that an epilogue has operands in."""
    return frozenset(OPERANDS[word.strip()] for word in epilogue.split(",") if word.strip() in OPERANDS)


def _others(epilogue, given, c, beta):
    """The arrays besides a, b and out that a call has, by their names."""
    needed, found = _needed(epilogue or ""), {name: array for name, array in given.items() if array is not None}
    if found.keys() != needed:
        name = next(name for name in given if (name in found) != (name in needed))
        raise GemmTunedError(f"the epilogue `{epilogue}` needs `{name}`: pass that array" if name in needed else
                             f"`{name}` is no operand of the epilogue `{epilogue}`: name its operation there")
    if c is not None and beta == 0:
        raise GemmTunedError("c is multiplied by beta, which is 0: give a beta")
    return found if c is None else {"c": c, **found}


def _check_packages(adapter, operands):
    """Refuses operands of several packages."""
    for one in operands:
        if (adapters.get(type(one)) or arrays.adapter_of_array(one)) is not adapter:
            kinds = [type(one).__name__ for one in operands]
            raise GemmTunedError(f"the operands are {', '.join(kinds)}: give arrays of one package")


def matmul(a, b, out=None, alpha=1, beta=0, *, c=None, out_dtype=None, compute=None, epilogue="", bias=None,
           row_scale=None, col_scale=None, residual=None, mul=None):
    """Computes epilogue(alpha * a @ b + beta * out) into `out` or a new array of `out_dtype`. If beta is 0, `out` is
    not read; `c` stands for it in an array of its own. Operands are matrices, or batches of them with three
    dimensions; a matrix beside a batch serves all its products. Dimensions may be 0, as for `torch.matmul`. If alpha is
    0, `a` and `b` are not read.

    `compute` names another compute type than that of the dtype, such as "tf32". `epilogue` has operations in their
    order, as in "bias,gelu": bias (n values), row-scale (m of float32), col-scale (n of float32), relu, gelu,
    gelu-tanh, silu, residual and mul (arrays that lie as `out` does)."""
    adapter = adapters.get(type(a)) or arrays.adapter_of_array(a)
    described, address, empty, *_ = adapter
    is_plain = not epilogue and (c is bias is row_scale is col_scale is residual is mul is None)
    others = {} if is_plain else _others(epilogue, {
        "bias": bias, "row_scale": row_scale, "col_scale": col_scale, "residual": residual, "mul": mul}, c, beta)
    if type(b) is not type(a) or out is not None or others:
        _check_packages(adapter, (a, b, *others.values()) if out is None else (a, b, out, *others.values()))
    if alpha == 0 and tuple(a.shape)[-1:] == tuple(b.shape)[-2:-1]:
        # As in BLAS, a and b are not read.
        a, b = a[..., :0], b[..., :0, :]
    a_at, b_at = address(a), address(b)
    if out is None:
        if beta != 0 and c is None:
            raise GemmTunedError("beta needs the array that it multiplies: pass it as `out` or `c`")
        of_out, low = None, a_at | b_at | ALIGNMENT
    else:
        of_out, out_at = described(out), address(out)
        low = a_at | b_at | out_at | ALIGNMENT
    of_others = tuple([(name, described(one)) for name, one in others.items()]) if others else ()
    key = described(a), described(b), of_out, low & -low, (out_dtype, compute, epilogue), of_others
    call = _calls.get(key) or prepared(adapter, key)
    if out is None:
        out = empty(a, call.shape, call.dtype)
        out_at = address(out)
    if others:
        call.launch(a_at, b_at, out_at, alpha, beta, **{name: address(one) for name, one in others.items()})
    else:
        call.launch(a_at, b_at, out_at, alpha, beta)
    return out
