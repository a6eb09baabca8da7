"""The library libgemm_tuned.so by ctypes: descriptions of products, the choice of a kernel, and handles of GPUs.

Needs no GPU before a handle is made.
"""

import ctypes
import operator
import os
import threading

FOLDER = os.path.dirname(os.path.abspath(__file__))
BUILD = "cc -O2 -shared -fPIC gemm_tuned.c -o libgemm_tuned.so -ldl"
# Constants of gemm_tuned.h.
VERSION, NO_KERNEL, NOT_NOW = 3, -1, -6
DEFAULT, F32, F16, BF16, I32, I8 = range(-1, 5)
DTYPES = {"f32": F32, "f16": F16, "bf16": BF16, "i32": I32, "i8": I8}
COMPUTES = {name: number for number, name in enumerate(("f32", "tf32", "f32-emulated", "f16", "bf16", "i32", "i8"))}
LAYOUTS = ("nn", "nt", "tn", "tt")
ALIGNMENT = 256
ANY_WORKSPACE = ctypes.c_size_t(-1).value


class GemmTunedError(RuntimeError):
    """The cause of a failure, and the next step."""


class NoKernelError(GemmTunedError):
    """The library has no kernel for a problem."""


class Problem(ctypes.Structure):
    """gemm_tuned_problem of gemm_tuned.h. Fields that are not given are 0, and dtypes those of A."""

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
        super().__init__(size=ctypes.sizeof(Problem), epilogue=epilogue.encode(), **fields)


class Choice(ctypes.Structure):
    """gemm_tuned_choice of gemm_tuned.h."""

    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("workspace_bytes", ctypes.c_size_t),
                ("expected_us", ctypes.c_double), ("tuned", ctypes.c_int), ("deterministic", ctypes.c_int)]


_lock = threading.Lock()
_library = None
# By the device.
handles = {}


def loaded():
    """The library, loaded once."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


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


def must(status, what):
    """Raises what a status other than success means."""
    if status != 0:
        text = loaded().gemm_tuned_status_string(status).decode()
        raise GemmTunedError(f"{what} failed: {text}")


def handle_of(device):
    """The handle for the primary context of a device, which PyTorch and CuPy use."""
    handle = handles.get(device)
    if handle is None:
        library = loaded()
        with _lock:
            handle = handles.get(device)
            if handle is None:
                handle = ctypes.c_void_p()
                must(library.gemm_tuned_create(ctypes.byref(handle), device), f"opening GPU {device}")
                # Workspaces are reserved, or arrays of PyTorch or CuPy.
                must(library.gemm_tuned_set_allocation(handle, 0), "setting the allocation")
                handles[device] = handle
    return handle


def version():
    """Version of the interface of the library."""
    return loaded().gemm_tuned_version()


def checked(problem):
    """Refuses a problem that no kernel can compute."""
    text = ctypes.create_string_buffer(256)
    if loaded().gemm_tuned_check(ctypes.byref(problem), text, len(text)) != 0:
        raise GemmTunedError(text.value.decode("ascii", "replace"))
    return problem


def chosen(handle, problem, room=ANY_WORKSPACE):
    """The kernel for a problem with at most `room` bytes of workspace."""
    choice = Choice(size=ctypes.sizeof(Choice))
    status = loaded().gemm_tuned_choose(handle, ctypes.byref(problem), room, ctypes.byref(choice))
    if status == NO_KERNEL:
        within = "" if room == ANY_WORKSPACE else f" with at most {room} bytes of workspace"
        raise NoKernelError(f"the library has no kernel for {text_of(problem)}{within}: export it with records of "
                            "that type, layout and epilogue, and without `--only-tuned`")
    must(status, "the choice of a kernel")
    return choice


def text_of(problem):
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


def number_of(names, word, what):
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
    dtype, dtype_d, compute = (number_of(DTYPES, dtype, "dtype"), number_of(DTYPES, out_dtype, "dtype"),
                               number_of(COMPUTES, compute, "compute type"))
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
    problem = checked(Problem(
        epilogue, dtype=dtype, dtype_d=dtype_d, compute=compute, transpose_a=layout[0] == "t",
        transpose_b=layout[1] == "t", alignment=alignment, m=m, n=n, k=k, batch=batch, lda=lda, ldb=ldb, ldd=ldd,
        stride_a=heights[0] * lda, stride_b=heights[1] * ldb, stride_d=heights[2] * ldd))
    return chosen(None, problem).name.decode()
