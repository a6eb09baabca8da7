"""Matrix multiplication with the kernels of this folder, found by gemm-tune.

    import gemm_tuned
    c = gemm_tuned.matmul(a, b)        # PyTorch tensors or CuPy arrays on an NVIDIA GPU

`matmul` computes alpha * a @ b + beta * out on the current stream of PyTorch or CuPy. Operands are
matrices with contiguous rows or columns; padded rows and transposed views are used without a copy.
Nothing is loaded and no GPU is needed before the first call. The module needs the NVIDIA driver, and
no package besides the one of its arrays.
"""

import ast
import ctypes
import functools
import hashlib
import json
import math
import os
import threading

__all__ = ["GemmTunedError", "kernel_for", "matmul"]

FOLDER = os.path.dirname(os.path.abspath(__file__))
OPEN = ("M", "N", "K", "batch", "lda", "ldb", "ldc")
STANDARD = ("A", "B", "C", "M", "N", "K", "batch", "lda", "ldb", "ldc",
            "stride_a", "stride_b", "stride_c", "alpha", "beta")
ELEMENT_BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}
DTYPES = {"torch.float32": "f32", "torch.int32": "i32", "torch.float16": "f16",
          "torch.bfloat16": "bf16", "float32": "f32", "int32": "i32", "float16": "f16"}
COMPUTE = {"f32": "f32", "i32": "i32", "f16": "f16", "bf16": "bf16"}
ALIGNMENT = 256
WIDEST_VECTOR = 16
FREE_SHARED_BYTES = 32 * 1024
MULTIPROCESSORS, MAJOR, MINOR, MAX_DYNAMIC_SHARED = 16, 75, 76, 8


class GemmTunedError(RuntimeError):
    """The cause of a failure, and the next step."""


# The bundle ---------------------------------------------------------------------------------------

def _plain(name):
    allowed = all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
    if not name or name.startswith(".") or not allowed:
        raise GemmTunedError(f"`{name}` is not a plain file name: the bundle was tampered with")
    return os.path.join(FOLDER, name)


def _read(name):
    try:
        with open(_plain(name), "rb") as file:
            return file.read()
    except OSError as error:
        raise GemmTunedError(f"cannot read `{name}`: {error}; export the bundle again") from error


@functools.lru_cache(maxsize=None)
def _checksums():
    lines = _read("SHA256SUMS").decode("ascii", "replace").splitlines()
    pairs = (line.split("  ", 1) for line in lines)
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _checked(name):
    data = _read(name)
    if hashlib.sha256(data).hexdigest() != _checksums().get(name):
        raise GemmTunedError(f"`{name}` was changed after the export; export the bundle again")
    return data


_NODES = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare,
          ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
          ast.FloorDiv, ast.Mod, ast.IfExp, ast.Call, ast.Name, ast.Load, ast.Constant)
_FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}


def _formula(text):
    """Compiles a formula to a function of the values of OPEN; accepts arithmetic only."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        known = isinstance(node, _NODES)
        if isinstance(node, ast.Name):
            known = node.id in OPEN or node.id in _FUNCTIONS
        if isinstance(node, ast.Constant):
            known = isinstance(node.value, int)
        if isinstance(node, ast.Call):
            known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known:
            raise GemmTunedError(f"`{text}` is not a formula: the bundle was tampered with")
    body = ast.unparse(tree)
    scope = dict(_FUNCTIONS, __builtins__={})
    return eval(f"lambda {', '.join(OPEN)}: {body}", scope)  # noqa: S307: checked above


class _Kernel:
    def __init__(self, entry):
        self.name, self.tuned = entry["name"], entry["tuned"]
        # If false, two runs on the same values may differ in their last bits.
        self.deterministic = entry.get("deterministic", True)
        problem = entry["problem"]
        self.pattern = (problem["dtype"], problem["compute"], problem["layout"])
        self.own = (problem["m"], problem["n"], problem["k"], problem["batch"])
        self.expectation = entry["expectation"]
        self.files = entry["files"]
        conditions = " and ".join(f"({text})" for text in entry["serves"]) or "True"
        self.serves = _formula(conditions)
        self.launches = []
        for launch in entry["launches"]:
            formulas = launch["formulas"]
            sizes = [_formula(text) for text in formulas["grid"] + formulas["block"]]
            sizes.append(_formula(formulas["dynamic_shared_bytes"]))
            self.launches.append((launch["entry"], sizes, launch["arguments"]))
        self.workspaces = [(w["name"], _formula(w["formula"])) for w in entry["workspaces"]]

    def expected_us(self, values, sms):
        """Predicted time. Whole tiles are distributed over the multiprocessors; the busiest one
        determines the time. Each tile, each wave and packing add to it."""
        e, (m, n, k, batch) = self.expectation, values[:4]
        if self.tuned and self.own == (m, n, k, batch):
            return 0.0
        slices = -(-k // e["slice_k"]) if e["slice_k"] else 1
        steps = min(k, e["slice_k"]) if e["slice_k"] else k
        blocks = -(-m // e["tile_m"]) * -(-n // e["tile_n"]) * slices * e["blocks_of_a_tile"] * batch
        share = -(-blocks // sms)
        waves = -(-share // e["blocks_per_sm"])
        clocks = (max(share * steps * e["busy_clocks"], waves * steps * e["alone_clocks"])
                  + share * e["block_clocks"] + waves * e["wave_clocks"]
                  + (m * k * e["a_clocks"] + k * n * e["b_clocks"]) * batch)
        ratio = clocks / e["own_clocks"]
        ratio = 1 / ratio if ratio < 1 else ratio
        time = e["launch_us"] + clocks * e["us_per_clock"]
        while ratio >= 2:
            ratio, time = ratio / 2, time * 1.05
        return time * (1 + 0.05 * (ratio - 1))


@functools.lru_cache(maxsize=None)
def _bundle():
    manifest = json.loads(_checked("manifest.json"))
    if manifest.get("schema") != 1:
        raise GemmTunedError(f"`manifest.json` has schema {manifest.get('schema')}; this module "
                             "reads schema 1: export the bundle again")
    return manifest, [_Kernel(entry) for entry in manifest["kernels"]]


def _lengths(layout, m, n, k):
    """Elements of a row of each matrix as it is stored."""
    return m if layout[0] == "t" else k, k if layout[1] == "t" else n, n


def _seen(rows, length, alignment, element_bytes):
    """Leading dimension as input of the formulas. Rows are aligned to at most the alignment of the
    address and of the row length, in elements. Contiguous elements without vector alignment count as
    separate."""
    if rows == 1 and alignment < WIDEST_VECTOR:
        return 3
    aligned = math.gcd(max(1, alignment // element_bytes), length)
    return rows + aligned if rows % aligned == 0 and rows // aligned % 2 == 0 else rows


def _preferred(node, kernels, m, n, k):
    """Kernels that the decision tree of the bundle prefers; none without a tree."""
    while node and "extent" in node:
        node = node["then" if {"M": m, "N": n, "K": k}[node["extent"]] < node["below"]
                    else "otherwise"]
    return [kernels[place] for place in node["kernels"]] if node else []


@functools.lru_cache(maxsize=4096)
def _choose(pattern, m, n, k, rows, alignment, sms):
    manifest, kernels = _bundle()
    lengths = _lengths(pattern[2], m, n, k)
    values = (m, n, k, 1, *(_seen(row, length, alignment, ELEMENT_BYTES[pattern[0]])
                            for row, length in zip(rows, lengths)))
    fitting = [kernel for kernel in kernels if kernel.pattern == pattern]
    if not fitting:
        has = sorted({"/".join(kernel.pattern) for kernel in kernels})
        raise GemmTunedError(f"this bundle has no kernel for {'/'.join(pattern)}; it has kernels for "
                             f"{', '.join(has)} (dtype/compute/layout)")
    fitting.sort(key=lambda kernel: kernel.expected_us(values, sms))
    preferred = _preferred(manifest.get("dispatch"), kernels, m, n, k)
    exact = [kernel for kernel in fitting if kernel.expected_us(values, sms) == 0]
    for kernel in [*exact, *(kernel for kernel in preferred if kernel in fitting), *fitting]:
        if kernel.serves(*values):
            sizes = [[size(*values) for size in launch[1]] for launch in kernel.launches]
            spaces = [bytes_(*values) for _, bytes_ in kernel.workspaces]
            return kernel, sizes, spaces
    raise GemmTunedError(f"this bundle has no kernel for {m}x{n}x{k} with rows of {rows} "
                         "elements: export it without `--only-tuned`")


def kernel_for(m, n, k, dtype="f32", layout="nn", rows=None, alignment=ALIGNMENT, sms=None):
    """The name of the kernel that `matmul` uses. `rows` are lda, ldb and ldc in elements; `alignment` is
    the alignment of the addresses in bytes. Needs no GPU."""
    rows = rows or _lengths(layout, m, n, k)
    sms = sms or _bundle()[0]["device"]["sms"]
    alignment = min(alignment, ALIGNMENT)
    return _choose((dtype, COMPUTE[dtype], layout), m, n, k, tuple(rows), alignment, sms)[0].name


# The driver ---------------------------------------------------------------------------------------

class _Driver:
    """The CUDA driver, and the modules loaded into the primary context of each device."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GemmTunedError("gemm_tuned needs an NVIDIA GPU, and there is no NVIDIA driver on "
                                 f"this machine ({error})") from error
        self.call("cuInit", 0)
        self.lock = threading.RLock()
        self.contexts, self.modules, self.functions, self.workspaces = {}, {}, {}, {}

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            error = text.value.decode() if text.value else status
            raise GemmTunedError(f"{name} failed: {error}")

    def attribute(self, number, device):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def context(self, device):
        """Makes the primary context current, as used by PyTorch and CuPy; returns its properties."""
        if device not in self.contexts:
            handle = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
            architecture = f"sm_{self.attribute(MAJOR, device)}{self.attribute(MINOR, device)}"
            self.contexts[device] = (handle, self.attribute(MULTIPROCESSORS, device), architecture)
        handle, sms, architecture = self.contexts[device]
        self.call("cuCtxSetCurrent", handle)
        return sms, architecture

    def function(self, device, architecture, kernel, entry, shared_bytes):
        key = (device, kernel.name, entry)
        if key not in self.functions:
            cubins = kernel.files["cubins"]
            described = cubins.get(architecture) or kernel.files["ptx"]
            name = described["file"]
            if (device, name) not in self.modules:
                module = ctypes.c_void_p()
                image = _checked(name) + b"\0"
                self.call("cuModuleLoadData", ctypes.byref(module), image)
                self.modules[device, name] = module
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[device, name],
                      entry.encode())
            if shared_bytes > FREE_SHARED_BYTES:
                self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared_bytes)
            self.functions[key] = function
        return self.functions[key]

    def workspace(self, device, stream, count):
        """Workspace of a stream; it grows on demand, and calls use it in turn."""
        address, size = self.workspaces.get((device, stream), (None, 0))
        if size < count:
            if address is not None:
                self.call("cuMemFree_v2", address)
            address = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
            self.workspaces[device, stream] = (address, count)
        return address.value


@functools.lru_cache(maxsize=None)
def _driver():
    return _Driver()


# Arrays -------------------------------------------------------------------------------------------

def _matrix(array, name):
    """Device, address, dtype, shape and strides in elements of a matrix on a GPU."""
    kind = type(array).__module__.split(".")[0]
    if kind not in ("torch", "cupy"):
        raise GemmTunedError(f"{name} is a {type(array).__name__}: give a PyTorch tensor or a CuPy "
                             "array on an NVIDIA GPU")
    if kind == "torch":
        if not array.is_cuda:
            raise GemmTunedError(f"{name} lies in host memory: move it to the GPU with `.cuda()`")
        device, address = array.get_device(), array.data_ptr()
        strides = tuple(array.stride())
    else:
        device, address = array.device.id, array.data.ptr
        strides = tuple(stride // array.itemsize for stride in array.strides)
    dtype = DTYPES.get(str(array.dtype))
    shape = tuple(array.shape)
    if dtype is None or len(shape) != 2 or 0 in shape:
        raise GemmTunedError(f"{name} is of {array.dtype} and shape {shape}: give a matrix of "
                             "float32 or int32")
    return device, address, dtype, shape, strides


def _stored(shape, strides, name):
    """Whether it is stored transposed, and the elements between rows as stored."""
    (height, width), (down, across) = shape, strides
    if (across == 1 or width == 1) and (down >= width or height == 1):
        return "n", max(down, width)
    if (down == 1 or height == 1) and (across >= height or width == 1):
        return "t", max(across, height)
    raise GemmTunedError(f"neither rows nor columns of {name} are contiguous: make a copy that is")


def _empty(like, shape):
    kind = type(like).__module__.split(".")[0]
    if kind == "torch":
        return like.new_empty(shape)
    import cupy
    with like.device:
        return cupy.empty(shape, like.dtype)


def _stream(like, device):
    if type(like).__module__.split(".")[0] == "torch":
        import torch
        return torch.cuda.current_stream(device).cuda_stream
    import cupy
    return cupy.cuda.get_current_stream().ptr


def matmul(a, b, out=None, alpha=1, beta=0):
    """Computes alpha * a @ b + beta * out into `out` or a new array. If beta is 0, `out` is not read."""
    driver = _driver()
    device, a_at, dtype, (m, k), a_strides = _matrix(a, "a")
    b_device, b_at, b_dtype, (b_rows, n), b_strides = _matrix(b, "b")
    if (device, dtype, k) != (b_device, b_dtype, b_rows):
        raise GemmTunedError(f"a {tuple(a.shape)} {a.dtype} on GPU {device} and b {tuple(b.shape)} "
                             f"{b.dtype} on GPU {b_device} have no product")
    if out is None:
        if beta != 0:
            raise GemmTunedError("beta needs the matrix that it multiplies: pass it as `out`")
        out = _empty(a, (m, n))
    c_device, c_at, c_dtype, c_shape, c_strides = _matrix(out, "out")
    (a_stored, lda), (b_stored, ldb) = _stored((m, k), a_strides, "a"), _stored((k, n), b_strides, "b")
    c_stored, ldc = _stored((m, n), c_strides, "out")
    if (c_device, c_dtype, c_shape, c_stored) != (device, dtype, (m, n), "n"):
        raise GemmTunedError(f"out is not a {m}x{n} matrix of {a.dtype} on GPU {device} with contiguous "
                             "rows")
    addresses = a_at | b_at | c_at
    alignment = min(ALIGNMENT, addresses & -addresses)
    stream = _stream(a, device)
    scalar = ctypes.c_int if dtype == "i32" else ctypes.c_float
    with driver.lock:
        sms, architecture = driver.context(device)
        pattern = (dtype, COMPUTE[dtype], a_stored + b_stored)
        kernel, sizes, spaces = _choose(pattern, m, n, k, (lda, ldb, ldc), alignment, sms)
        values = dict(zip(STANDARD, (
            ctypes.c_uint64(a_at), ctypes.c_uint64(b_at), ctypes.c_uint64(c_at), ctypes.c_int(m),
            ctypes.c_int(n), ctypes.c_int(k), ctypes.c_int(1), ctypes.c_int(lda), ctypes.c_int(ldb),
            ctypes.c_int(ldc), ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_int64(0),
            scalar(alpha), scalar(beta))))
        rounded = [-(-space // ALIGNMENT) * ALIGNMENT for space in spaces]
        at = driver.workspace(device, stream, sum(rounded)) if spaces else 0
        for (name, _), space in zip(kernel.workspaces, rounded):
            values[name] = ctypes.c_uint64(at)
            at += space
        for (entry, _, arguments), size in zip(kernel.launches, sizes):
            function = driver.function(device, architecture, kernel, entry, size[6])
            given = (ctypes.c_void_p * len(arguments))(
                *(ctypes.addressof(values[argument]) for argument in arguments))
            driver.call("cuLaunchKernel", function, *(ctypes.c_uint(part) for part in size),
                        ctypes.c_void_p(stream), given, None)
    return out
