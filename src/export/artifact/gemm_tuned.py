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
import os
import struct
import threading

__all__ = ["GemmTunedError", "NoKernelError", "kernel_for", "matmul", "version"]

FOLDER = os.path.dirname(os.path.abspath(__file__))
BUILD = "cc -O2 -shared -fPIC gemm_tuned.c -o libgemm_tuned.so -ldl"
# Constants of gemm_tuned.h.
VERSION, NO_KERNEL, NOT_NOW = 3, -1, -6
DEFAULT, F32, F16, BF16, I32, I8 = range(-1, 5)
DTYPES = {"f32": F32, "f16": F16, "bf16": BF16, "i32": I32, "i8": I8}
COMPUTES = {name: number for number, name in enumerate(("f32", "tf32", "f32-emulated", "f16", "bf16", "i32", "i8"))}
ARRAY_DTYPES = {"torch.float32": F32, "torch.int32": I32, "torch.float16": F16, "torch.bfloat16": BF16,
                "torch.int8": I8, "float32": F32, "int32": I32, "float16": F16, "bfloat16": BF16, "int8": I8}
# Names of the dtype of a result in PyTorch and CuPy.
ARRAY_NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16", I32: "int32", I8: "int8"}
# Operations of epilogues with an operand: the argument that is it.
OPERANDS = {"bias": "bias", "row-scale": "row_scale", "col-scale": "col_scale", "residual": "residual", "mul": "mul"}
LAYOUTS = ("nn", "nt", "tn", "tt")
ALIGNMENT = 256
ANY_WORKSPACE = ctypes.c_size_t(-1).value
# Bytes of the workspace that is reserved for a stream of PyTorch, which keeps as much for cuBLAS. Larger ones are arrays of
# a call.
RESERVED_BYTES = 32 << 20
# Calls that are remembered; more of them are prepared anew.
MAX_CALLS = 4096
# Names that gemm_tuned_torch.py has, which imports PyTorch.
TORCH_NAMES = ("Patch", "TunedLinear", "addmm", "bmm", "linear", "mm", "patch_linear")


class GemmTunedError(RuntimeError):
    """The cause of a failure, and the next step."""


class NoKernelError(GemmTunedError):
    """The library has no kernel for a problem."""


# The library --------------------------------------------------------------------------------------

class _Problem(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("dtype", ctypes.c_int), ("transpose_a", ctypes.c_int),
                ("transpose_b", ctypes.c_int), ("alignment", ctypes.c_int),
                *((name, ctypes.c_longlong) for name in (
                    "m", "n", "k", "batch", "lda", "ldb", "ldd", "stride_a", "stride_b", "stride_d")),
                ("dtype_b", ctypes.c_int), ("dtype_d", ctypes.c_int), ("compute", ctypes.c_int),
                ("reserved", ctypes.c_int), ("epilogue", ctypes.c_char_p),
                ("ldc", ctypes.c_longlong), ("stride_c", ctypes.c_longlong)]

    def __init__(self, epilogue="", **fields):
        for name, value in fields.items():
            # ctypes cuts a larger number.
            if not -1 << 63 <= value < 1 << 63:
                raise GemmTunedError(f"{name} is {value}: give a number of 64 bits")
        for name in ("dtype_b", "dtype_d", "compute"):
            fields.setdefault(name, DEFAULT)
        super().__init__(size=ctypes.sizeof(_Problem), epilogue=epilogue.encode(), **fields)


# gemm_tuned_operands: its size, and the addresses of a, b, d, alpha, beta, c, bias, row_scale, col_scale, residual and
# mul. Bytes are packed in less than half the time of a ctypes structure.
_OPERANDS = struct.Struct("12N")


class _Choice(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("workspace_bytes", ctypes.c_size_t),
                ("expected_us", ctypes.c_double), ("tuned", ctypes.c_int), ("deterministic", ctypes.c_int)]


_lock = threading.Lock()
_loaded = None
_handles = {}
# Whether a workspace is reserved, by the device and the stream.
_reserved = {}
_calls = {}


def _library():
    """The library, loaded once."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _load():
    path = os.path.join(FOLDER, "libgemm_tuned.so")
    if not os.path.exists(path):
        raise GemmTunedError(f"there is no `{path}`: build it in that folder with `{BUILD}`")
    try:
        library = ctypes.CDLL(path)
        library.gemm_tuned_version.restype = ctypes.c_int
        version = library.gemm_tuned_version()
    except (OSError, AttributeError) as error:
        raise GemmTunedError(f"cannot load `{path}` ({error}): build it again with `{BUILD}`") from error
    if version != VERSION:
        raise GemmTunedError(f"`{path}` has version {version} of the interface, and this module needs "
                             f"{VERSION}: export both again")
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.gemm_tuned_status_string.restype = ctypes.c_char_p
    library.gemm_tuned_create.argtypes = [ctypes.POINTER(pointer), ctypes.c_int]
    library.gemm_tuned_destroy.argtypes = [pointer]
    library.gemm_tuned_destroy.restype = None
    library.gemm_tuned_set_allocation.argtypes = [pointer, ctypes.c_int]
    library.gemm_tuned_check.argtypes = [pointer, ctypes.c_char_p, size]
    library.gemm_tuned_choose.argtypes = [pointer, pointer, size, pointer]
    library.gemm_tuned_measure.argtypes = [pointer, pointer, pointer, pointer]
    library.gemm_tuned_reserve.argtypes = [pointer, pointer, size]
    library.gemm_tuned_run.argtypes = [pointer, pointer, pointer, pointer, size, pointer]
    return library


def _must(status, what):
    if status != 0:
        text = _library().gemm_tuned_status_string(status).decode()
        raise GemmTunedError(f"{what} failed: {text}")


def _handle(device):
    """The handle for the primary context of a device, which PyTorch and CuPy use."""
    handle = _handles.get(device)
    if handle is None:
        library = _library()
        with _lock:
            handle = _handles.get(device)
            if handle is None:
                handle = ctypes.c_void_p()
                _must(library.gemm_tuned_create(ctypes.byref(handle), device),
                      f"opening GPU {device}")
                # Workspaces are reserved, or arrays of PyTorch or CuPy.
                _must(library.gemm_tuned_set_allocation(handle, 0), "setting the allocation")
                _handles[device] = handle
    return handle


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


def version():
    """Version of the interface of the library."""
    return _library().gemm_tuned_version()


def _checked(problem):
    """Refuses a problem that no kernel can compute."""
    text = ctypes.create_string_buffer(256)
    if _library().gemm_tuned_check(ctypes.byref(problem), text, len(text)) != 0:
        raise GemmTunedError(text.value.decode("ascii", "replace"))
    return problem


def _chosen(handle, problem, room=ANY_WORKSPACE):
    """The kernel for a problem with at most `room` bytes of workspace."""
    choice = _Choice(size=ctypes.sizeof(_Choice))
    status = _library().gemm_tuned_choose(handle, ctypes.byref(problem), room, ctypes.byref(choice))
    if status == NO_KERNEL:
        within = "" if room == ANY_WORKSPACE else f" with at most {room} bytes of workspace"
        raise NoKernelError(f"the library has no kernel for {_words(problem)}{within}: export it with records of "
                            "that type, layout and epilogue, and without `--only-tuned`")
    _must(status, "the choice of a kernel")
    return choice


def _words(problem):
    """A problem for messages: `64x64x64 x 1 bf16 out f32 nt bias,gelu`."""
    def name(names, number):
        return next(name for name, known in names.items() if known == number)

    words = [f"{problem.m}x{problem.n}x{problem.k} x {problem.batch}", name(DTYPES, problem.dtype)]
    if problem.dtype_b not in (DEFAULT, problem.dtype):
        words.append(name(DTYPES, problem.dtype_b))
    if problem.dtype_d not in (DEFAULT, I32 if problem.dtype == I8 else problem.dtype):
        words.append("out " + name(DTYPES, problem.dtype_d))
    if problem.compute != DEFAULT:
        words.append(name(COMPUTES, problem.compute))
    words.append("nt"[problem.transpose_a] + "nt"[problem.transpose_b])
    if problem.epilogue:
        words.append(problem.epilogue.decode("ascii", "replace"))
    return " ".join(words)


def _number(names, word, what):
    """The number of a dtype or a compute type; that of None is the default."""
    if word is None:
        return DEFAULT
    if word not in names:
        raise GemmTunedError(f"`{word}` is no {what} of this module: choose one of {', '.join(names)}")
    return names[word]


def kernel_for(m, n, k, dtype="f32", layout="nn", rows=None, alignment=ALIGNMENT, batch=1, *, out_dtype=None,
               compute=None, epilogue=""):
    """The name of the kernel that `matmul` uses on the GPU that the kernels were tuned on. `rows` are the
    leading dimensions of a, b and out in elements; `alignment` is the alignment of the addresses in bytes. The
    matrices of a batch lie one after the other. Needs no GPU."""
    dtype, dtype_d, compute = (_number(DTYPES, dtype, "dtype"), _number(DTYPES, out_dtype, "dtype"),
                               _number(COMPUTES, compute, "compute type"))
    if layout not in LAYOUTS:
        raise GemmTunedError(f"`{layout}` is no layout: choose one of {', '.join(LAYOUTS)}")
    try:
        m, n, k, alignment, batch = (operator.index(one) for one in (m, n, k, alignment, batch))
        packed = (m if layout[0] == "t" else k, k if layout[1] == "t" else n, n)
        lda, ldb, ldd = (operator.index(row) for row in (packed if rows is None else rows))
    except (TypeError, ValueError) as error:
        raise GemmTunedError("extents, three rows, alignment and batch are whole numbers: "
                             f"{error}") from error
    if 0 in (lda, ldb, ldd):
        raise GemmTunedError(f"rows are {lda}, {ldb}, {ldd}: give elements from one row to the next")
    if not 1 <= alignment < 1 << 31:
        raise GemmTunedError(f"alignment is {alignment}: give a power of two")
    heights = k if layout[0] == "t" else m, n if layout[1] == "t" else k, m
    problem = _checked(_Problem(
        epilogue, dtype=dtype, dtype_d=dtype_d, compute=compute, transpose_a=layout[0] == "t",
        transpose_b=layout[1] == "t", alignment=alignment, m=m, n=n, k=k, batch=batch, lda=lda, ldb=ldb, ldd=ldd,
        stride_a=heights[0] * lda, stride_b=heights[1] * ldb, stride_d=heights[2] * ldd))
    return _chosen(None, problem).name.decode()


# Arrays -------------------------------------------------------------------------------------------

def _torch():
    """Functions for PyTorch tensors."""
    import torch

    raw_stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)

    def stream(device):
        return torch.cuda.current_stream(device).cuda_stream

    def described(array):
        """Device, dtype, shape and strides in elements: what a call is remembered by."""
        return array.get_device(), array.dtype, array.shape, array.stride()

    def address(array):
        return array.data_ptr()

    dtypes = {number: getattr(torch, name) for number, name in ARRAY_NAMES.items()}
    uint8, devices = torch.uint8, {}

    def empty(like, shape, dtype):
        # Extents are taken in half the time of a tuple of them.
        dtype = dtypes[dtype]
        return like.new_empty(*shape) if like.dtype is dtype else like.new_empty(*shape, dtype=dtype)

    def workspace(count, device):
        place = devices.get(device)
        if place is None:
            place = devices[device] = torch.device("cuda", device)
        return torch.empty(count, dtype=uint8, device=place)

    current = getattr(getattr(torch, "_C", None), "_cuda_getDevice", None)
    captured = getattr(getattr(torch, "_C", None), "_cuda_isCurrentStreamCapturing", None)

    def may_reserve(device):
        """Whether the current stream may have a workspace of its own: a captured graph has another one."""
        return current() == device and not captured()

    out_of_memory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return (described, address, empty, workspace, raw_stream or stream, out_of_memory,
            may_reserve if current and captured else _reserves_nothing)


def _reserves_nothing(_device):
    return False


def _cupy():
    """The same for CuPy arrays."""
    import cupy

    current_device, array_of = cupy.cuda.runtime.getDevice, cupy.ndarray
    current_stream = cupy.cuda.get_current_stream
    # Strides in elements by those in bytes and the dtype. A name of a dtype takes 4 us, so that numbers and dtypes are
    # kept, too.
    strides_of, numbers, dtypes = {}, {}, {}

    def in_elements(strides, dtype):
        size = dtype.itemsize
        if any(stride % size for stride in strides):
            raise GemmTunedError("elements of an array are not whole elements apart: make a copy that is "
                                 "contiguous")
        if len(strides_of) >= MAX_CALLS:
            strides_of.clear()
        found = strides_of[strides, dtype] = tuple(stride // size for stride in strides)
        return found

    def described(array):
        strides, dtype = array.strides, array.dtype
        elements = strides_of.get((strides, dtype))
        return array.data.device_id, dtype, array.shape, in_elements(strides, dtype) if elements is None else elements

    def address(array):
        return array.data.ptr

    def number_of(dtype):
        number = numbers[dtype] = ARRAY_DTYPES[str(dtype)]
        return number

    def dtype_of(number):
        if number == BF16:
            # numpy knows the name from then on.
            importlib.import_module("ml_dtypes")
        dtype = dtypes[number] = cupy.dtype(ARRAY_NAMES[number])
        return dtype

    def on_device(device, shape, dtype):
        if current_device() == device:
            return array_of(shape, dtype)
        with cupy.cuda.Device(device):
            return array_of(shape, dtype)

    def empty(like, shape, dtype):
        own = like.dtype
        number = numbers.get(own)
        if (number_of(own) if number is None else number) != dtype:
            own = dtypes.get(dtype) or dtype_of(dtype)
        return on_device(like.data.device_id, shape, own)

    def workspace(count, device):
        return on_device(device, (count,), cupy.uint8)

    def stream(device):
        return current_stream(device).ptr

    # Streams of CuPy end with their objects, and a later one may have the address of one whose work is not done.
    return described, address, empty, workspace, stream, cupy.cuda.memory.OutOfMemoryError, _reserves_nothing


# By the type of an array; parameters of PyTorch share the adapter of its tensors.
_adapters = {}
_adapters_of_packages = {}


def _adapter(array):
    """The functions for arrays of a type."""
    kind = type(array).__module__.split(".")[0]
    if kind not in ("torch", "cupy"):
        raise GemmTunedError(f"an operand is a {type(array).__name__}: give PyTorch tensors or CuPy arrays on "
                             "an NVIDIA GPU")
    adapter = _adapters[type(array)] = adapter_of(kind)
    return adapter


def adapter_of(package):
    """The functions for arrays of a package."""
    if package not in _adapters_of_packages:
        _adapters_of_packages[package] = _torch() if package == "torch" else _cupy()
    return _adapters_of_packages[package]


def _stored(name, shape, strides):
    """Whether a matrix is stored transposed, and the elements between rows as stored. A single row ends
    nowhere, so that its stride is its length."""
    (height, width), (down, across) = shape, strides
    if 0 in shape:
        return 0, width
    if (across == 1 or width == 1) and (down >= width or height == 1):
        return 0, width if height == 1 else down
    if (down == 1 or height == 1) and (across >= height or width == 1):
        return 1, height if width == 1 else across
    raise GemmTunedError(f"neither rows nor columns of {name} are contiguous: make a copy that is")


def _matrices(name, described):
    """The batch, the shape and the strides of a matrix, and the stride of its batch."""
    device, dtype, shape, strides = described
    if device < 0:
        raise GemmTunedError(f"{name} lies in host memory: move it to the GPU with `.cuda()`")
    if str(dtype) not in ARRAY_DTYPES:
        raise GemmTunedError(f"{name} is of {dtype}: give float32, float16, bfloat16, int32 or int8")
    shape, strides = tuple(shape), tuple(strides)
    if len(shape) not in (2, 3):
        raise GemmTunedError(f"{name} has shape {shape}: give a matrix or a batch of matrices")
    batch, stride = (shape[0], strides[0]) if len(shape) == 3 else (None, 0)
    return batch, shape[-2:], strides[-2:], stride


def _check_operand(name, described, out):
    """Refuses an operand of an epilogue that a kernel would read otherwise than it lies."""
    device, dtype, shape, strides = described
    (out_device, out_dtype, out_shape, out_strides), (*batch, m, n) = out, out[2]
    is_scale = name.endswith("_scale")
    wanted = (*batch, m if name == "row_scale" else n)
    if name in ("residual", "mul"):
        wanted, lies = tuple(out_shape), tuple(strides) == tuple(out_strides)
    else:
        shape = (1,) * (len(wanted) - len(shape)) + tuple(shape)
        lies = tuple(strides)[-len(wanted):] in ((1,), (wanted[-1], 1))
    dtype_lies = ARRAY_DTYPES.get(str(dtype)) == (F32 if is_scale else ARRAY_DTYPES[str(out_dtype)])
    if device != out_device or not dtype_lies or tuple(shape) != tuple(wanted) or not lies:
        raise GemmTunedError(f"{name} is {tuple(described[2])} {dtype} on GPU {device}: give an array of shape "
                             f"{tuple(wanted)} of {'float32' if is_scale else out_dtype} on GPU {out_device} that lies "
                             f"{'as out does' if name in ('residual', 'mul') else 'without gaps'}")


class _Call:
    """A product of arrays of known types, shapes and strides, prepared once: its problem, and the workspace of
    its kernel. `options` are the dtype of the result, the compute type and the epilogue; `others` are C and the
    operands of the epilogue by their names."""

    def __init__(self, adapter, of_a, of_b, of_out, alignment, options, others):
        (a_batch, (m, k), a_strides, stride_a), (b_batch, (b_rows, n), b_strides, stride_b) = (
            _matrices("a", of_a), _matrices("b", of_b))
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
        dtype, dtype_b = ARRAY_DTYPES[str(of_a[1])], ARRAY_DTYPES[str(of_b[1])]
        if of_out is not None and out_dtype is not None:
            raise GemmTunedError("out has a dtype already: give either out or out_dtype")
        if of_out is not None:
            self.dtype = ARRAY_DTYPES.get(str(of_out[1]))
        elif out_dtype is not None:
            self.dtype = ARRAY_DTYPES.get(str(out_dtype), DTYPES.get(out_dtype))
        else:
            self.dtype = I32 if dtype == I8 else dtype
        if self.dtype is None:
            raise GemmTunedError(f"out is of {out_dtype if of_out is None else of_out[1]}: give float32, float16, "
                                 "bfloat16 or int32")
        if of_out is None:
            name = ARRAY_NAMES[self.dtype]
            of_out = (of_a[0], name, self.shape, (m * n, n, 1)[-len(self.shape):])
        _, out_shape, out_strides, stride_d = _matrices("out", of_out)
        transposed, ldd = _stored("out", out_shape, out_strides)
        if of_out[0] != of_a[0] or tuple(of_out[2]) != self.shape or transposed:
            raise GemmTunedError(f"out is {tuple(of_out[2])} {of_out[1]} on GPU {of_out[0]}: give an array "
                                 f"of shape {self.shape} on GPU {self.device} with contiguous rows")
        (transpose_a, lda), (transpose_b, ldb) = (
            _stored("a", (m, k), a_strides), _stored("b", (k, n), b_strides))
        fields = self.stored_c(others.get("c"), of_out)
        for name, described in others.items():
            if name != "c":
                _check_operand(name, described, of_out)
        self.problem = _checked(_Problem(
            epilogue, dtype=dtype, dtype_b=dtype_b, dtype_d=self.dtype,
            compute=_number(COMPUTES, compute, "compute type"), transpose_a=transpose_a, transpose_b=transpose_b,
            alignment=alignment, m=m, n=n, k=k, batch=next(iter(batches), 1), lda=lda, ldb=ldb, ldd=ldd,
            stride_a=stride_a, stride_b=stride_b, stride_d=stride_d, **fields))
        self.adapter, self.stream, self.may_reserve = adapter, adapter[4], adapter[6]
        self.handle = _handle(self.device)
        # Known after the first call outside of a capture.
        self.workspace = None
        # What the library takes, made once.
        self.reference = ctypes.addressof(self.problem)
        self.run = _library().gemm_tuned_run

    def stored_c(self, of_c, of_out):
        """The rows and the stride of C, where it has an array of its own."""
        if of_c is None:
            return {}
        _, shape, strides, stride_c = _matrices("c", of_c)
        transposed, ldc = _stored("c", shape, strides)
        is_alike = of_c[0] == of_out[0] and ARRAY_DTYPES.get(str(of_c[1])) == self.dtype
        if not is_alike or tuple(of_c[2]) != self.shape or transposed:
            raise GemmTunedError(f"c is {tuple(of_c[2])} {of_c[1]} on GPU {of_c[0]}: give an array of shape "
                                 f"{self.shape} of the dtype of out on GPU {self.device} with contiguous rows")
        return {"ldc": ldc, "stride_c": stride_c}

    def first_workspace(self, operands, stream):
        """The workspace of the kernel, which is measured before where the environment says so."""
        status = _library().gemm_tuned_measure(self.handle, self.reference, operands, stream)
        if status != NOT_NOW:
            _must(status, "measuring the product")
        count = _chosen(self.handle, self.problem).workspace_bytes
        if status != NOT_NOW:
            self.workspace = count
        return count

    def space(self, count):
        """A workspace of `count` bytes, its address, and its bytes: where memory is missing, of the best kernel that
        needs less."""
        _, address, _, workspace, _, out_of_memory, _ = self.adapter
        while count:
            try:
                space = workspace(count, self.device)
                return space, address(space), count
            except out_of_memory:
                count = _chosen(self.handle, self.problem, count - 1).workspace_bytes
        return None, None, 0

    def reserve(self, queue):
        """Reserves a workspace for a stream, once; whether there is one. Calls that lend none use it."""
        if not self.may_reserve(self.device):
            return False
        known = _reserved.get((self.device, queue))
        if known is None:
            known = _reserved[self.device, queue] = _library().gemm_tuned_reserve(self.handle, queue, RESERVED_BYTES) == 0
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
            _must(status, "the product")


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
        if dtype != I32:
            return ctypes.c_float(value)
        whole = operator.index(value)
    except TypeError as error:
        wanted = "a whole number" if dtype == I32 else "a number"
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


def _check_packages(adapter, arrays):
    """Refuses arrays of several packages."""
    for array in arrays:
        if (_adapters.get(type(array)) or _adapter(array)) is not adapter:
            kinds = [type(one).__name__ for one in arrays]
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
    adapter = _adapters.get(type(a)) or _adapter(a)
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
