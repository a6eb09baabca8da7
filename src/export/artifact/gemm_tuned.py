"""Matrix multiplication with the kernels of this folder, found by gemm-tune.

    import gemm_tuned
    c = gemm_tuned.matmul(a, b)        # PyTorch tensors or CuPy arrays on an NVIDIA GPU

`matmul` computes alpha * a @ b + beta * out on the current stream of PyTorch or CuPy. Operands are
matrices with contiguous rows or columns; padded rows and transposed views are used without a copy.
Nothing is loaded and no GPU is needed before the first call. The module needs the NVIDIA driver, and
no package besides the one of its arrays.
"""

import ast
import contextlib
import ctypes
import functools
import hashlib
import json
import math
import operator
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
LAYOUTS = ("nn", "nt", "tn", "tt")
# Limits of extents and leading dimensions, which kernels take as 32-bit integers, and of an operand's bytes.
MAX_EXTENT, MAX_OPERAND_BYTES = @MAX_EXTENT@, @MAX_OPERAND_BYTES@
# Limits of a launch: grid, block, threads of a block.
MAX_SIZES, MAX_THREADS = ((1 << 31) - 1, 65535, 65535, 1024, 1024, 64), 1024
SATURATED = (1 << 63) - 1
ALIGNMENT = 256
WIDEST_VECTOR = 16
FREE_SHARED_BYTES = 32 * 1024
MULTIPROCESSORS, MAJOR, MINOR, MAX_DYNAMIC_SHARED, OUT_OF_MEMORY = 16, 75, 76, 8, 2


class GemmTunedError(RuntimeError):
    """The cause of a failure, and the next step."""


def _once(make):
    """Calls `make` once, whichever threads ask first; what fails is tried again."""
    lock, made = threading.Lock(), []

    @functools.wraps(make)
    def get():
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get


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


@_once
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


def _parsed(text):
    """Parses a formula. The parser of some Pythons crashes on deeply nested ones."""
    depth = deepest = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        deepest = max(deepest, depth)
    try:
        if deepest > 250 or len(text) > 1 << 20:
            raise ValueError("it is nested too deeply, or too long")
        return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise GemmTunedError(f"`{text[:60]}` is not a formula ({error}): the bundle was tampered "
                             "with") from None


def _formula(text):
    """Compiles a formula to a function of the values of OPEN; accepts arithmetic only."""
    tree = _parsed(text)
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
        self.expectation = e = entry["expectation"]
        counts = (e["tile_m"], e["tile_n"], e["blocks_of_a_tile"], e["blocks_per_sm"])
        if min(counts) < 1 or not e["own_clocks"] > 0:
            raise GemmTunedError(f"the expectation of `{self.name}` has a zero: the bundle was tampered "
                                 "with")
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
        blocks = min(blocks, SATURATED)
        share = -(-blocks // sms)
        waves = -(-share // e["blocks_per_sm"])
        clocks = (max(share * steps * e["busy_clocks"], waves * steps * e["alone_clocks"])
                  + share * e["block_clocks"] + waves * e["wave_clocks"]
                  + (m * k * e["a_clocks"] + k * n * e["b_clocks"]) * batch)
        ratio = clocks / e["own_clocks"]
        ratio = 1 / ratio if ratio < 1 else ratio
        time = e["launch_us"] + clocks * e["us_per_clock"]
        while 2 <= ratio < math.inf:
            ratio, time = ratio / 2, time * 1.05
        return time * (1 + 0.05 * (ratio - 1))

    def planned(self, values):
        """Sizes of the launches and bytes of the workspaces, each aligned; `None` where no device has
        a grid or a block of such sizes."""
        sizes = [[size(*values) for size in launch[1]] for launch in self.launches]
        for own in sizes:
            if not all(1 <= one <= most for one, most in zip(own, MAX_SIZES)):
                return None
            if own[3] * own[4] * own[5] > MAX_THREADS or not 0 <= own[6] < 1 << 31:
                return None
        spaces = [bytes_(*values) for _, bytes_ in self.workspaces]
        return sizes, [-(-space // ALIGNMENT) * ALIGNMENT for space in spaces]


@_once
def _bundle():
    try:
        manifest = json.loads(_checked("manifest.json"))
        if manifest.get("schema") != 1:
            raise GemmTunedError(f"`manifest.json` has schema {manifest.get('schema')}; this module "
                                 "reads schema 1: export the bundle again")
        return manifest, [_Kernel(entry) for entry in manifest["kernels"]]
    except GemmTunedError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError,
            MemoryError) as error:
        raise GemmTunedError(f"`manifest.json` is not a valid manifest ({type(error).__name__}: "
                             f"{error}); export the bundle again") from None


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


def _check(dtype, layout, extents, rows, alignment):
    """Refuses operands that kernels cannot address. The same check as in the C and Rust exports and in
    gemm-tune itself."""
    if dtype not in ELEMENT_BYTES:
        raise GemmTunedError(f"`{dtype}` is no dtype of this module: choose one of "
                             f"{', '.join(ELEMENT_BYTES)}")
    if layout not in LAYOUTS:
        raise GemmTunedError(f"`{layout}` is no layout: choose one of {', '.join(LAYOUTS)}")
    m, n, k = extents
    for name, extent in zip("MNK", extents):
        if not 1 <= extent <= MAX_EXTENT:
            raise GemmTunedError(f"{name} is {extent}: kernels take 1 to {MAX_EXTENT}")
    heights = k if layout[0] == "t" else m, n if layout[1] == "t" else k, m
    for operand, height, width, row in zip("ABC", heights, _lengths(layout, m, n, k), rows):
        if row < width:
            raise GemmTunedError(f"ld{operand.lower()} is {row}: rows of {operand} have {width} elements, "
                                 "give at least as many")
        if row > MAX_EXTENT:
            raise GemmTunedError(f"ld{operand.lower()} is {row}: kernels take leading dimensions of at "
                                 f"most {MAX_EXTENT}")
        if height * row * ELEMENT_BYTES[dtype] > MAX_OPERAND_BYTES:
            raise GemmTunedError(f"operand {operand} spans {height * row * ELEMENT_BYTES[dtype]} bytes "
                                 f"with rows of {row} elements: at most 2^48 are possible")
    if alignment < ELEMENT_BYTES[dtype] or alignment & (alignment - 1):
        raise GemmTunedError(f"addresses aligned to {alignment} bytes: give a power of two of at least "
                             f"{ELEMENT_BYTES[dtype]}, the size of an element")


@functools.lru_cache(maxsize=4096)
def _choose(pattern, m, n, k, rows, alignment, sms, room=SATURATED):
    """The kernel, the sizes of its launches, and the bytes of its workspaces, at most `room` in all."""
    manifest, kernels = _bundle()
    lengths = _lengths(pattern[2], m, n, k)
    values = (m, n, k, 1, *(_seen(row, length, alignment, ELEMENT_BYTES[pattern[0]])
                            for row, length in zip(rows, lengths)))
    fitting = [kernel for kernel in kernels if kernel.pattern == pattern]
    if not fitting:
        has = sorted({"/".join(kernel.pattern) for kernel in kernels})
        raise GemmTunedError(f"this bundle has no kernel for {'/'.join(pattern)}; it has kernels for "
                             f"{', '.join(has)} (dtype/compute/layout)")
    timed = sorted(((kernel.expected_us(values, sms), place) for place, kernel in enumerate(fitting)))
    preferred = _preferred(manifest.get("dispatch"), kernels, m, n, k)
    exact = [fitting[place] for time, place in timed if time == 0]
    preferred = [kernel for kernel in preferred if kernel.pattern == pattern]
    for kernel in [*exact, *preferred, *(fitting[place] for _, place in timed)]:
        if kernel.serves(*values):
            plan = kernel.planned(values)
            if plan is not None and sum(plan[1]) <= room:
                return kernel, *plan
    within = "" if room == SATURATED else f" and at most {room} bytes of workspace"
    raise GemmTunedError(f"this bundle has no kernel for {m}x{n}x{k} with rows of {rows} "
                         f"elements{within}: export it without `--only-tuned`")


def kernel_for(m, n, k, dtype="f32", layout="nn", rows=None, alignment=ALIGNMENT, sms=None):
    """The name of the kernel that `matmul` uses. `rows` are lda, ldb and ldc in elements; `alignment` is
    the alignment of the addresses in bytes. Needs no GPU."""
    try:
        m, n, k, alignment = (operator.index(one) for one in (m, n, k, alignment))
        packed = _lengths(layout, m, n, k) if layout in LAYOUTS else (0, 0, 0)
        lda, ldb, ldc = (operator.index(row) for row in (packed if rows is None else rows))
        sms = operator.index(_bundle()[0]["device"]["sms"] if sms is None else sms)
    except (TypeError, ValueError) as error:
        raise GemmTunedError("extents, three rows, alignment and multiprocessors are whole numbers: "
                             f"{error}") from error
    _check(dtype, layout, (m, n, k), (lda, ldb, ldc), alignment)
    if sms < 1:
        raise GemmTunedError(f"a GPU has at least 1 multiprocessor, not {sms}")
    pattern, alignment = (dtype, COMPUTE[dtype], layout), min(alignment, ALIGNMENT)
    return _choose(pattern, m, n, k, (lda, ldb, ldc), alignment, sms)[0].name


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
        self.must(name, getattr(self.library, name)(*arguments))

    def must(self, name, status):
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            error = text.value.decode() if text.value else status
            raise GemmTunedError(f"{name} failed: {error}")

    def attribute(self, number, device):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    @contextlib.contextmanager
    def entered(self, device):
        """Makes the primary context current, as used by PyTorch and CuPy, and the caller's one again in
        the end; gives its properties."""
        if device not in self.contexts:
            handle = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
            architecture = f"sm_{self.attribute(MAJOR, device)}{self.attribute(MINOR, device)}"
            self.contexts[device] = (handle, self.attribute(MULTIPROCESSORS, device), architecture)
        handle, sms, architecture = self.contexts[device]
        self.call("cuCtxPushCurrent_v2", handle)
        try:
            yield sms, architecture
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def function(self, device, architecture, kernel, entry, shared_bytes):
        """A function by its machine code and entry point; kernels may share both."""
        described = kernel.files["cubins"].get(architecture) or kernel.files["ptx"]
        content = described["sha256"]
        key = (device, content, entry)
        if key not in self.functions:
            if (device, content) not in self.modules:
                image = _checked(described["file"])
                if hashlib.sha256(image).hexdigest() != content:
                    raise GemmTunedError(f"`{described['file']}` is not the file of the manifest; export "
                                         "the bundle again")
                module = ctypes.c_void_p()
                self.call("cuModuleLoadData", ctypes.byref(module), image + b"\0")
                self.modules[device, content] = module
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[device, content],
                      entry.encode())
            self.functions[key] = (function, FREE_SHARED_BYTES)
        function, allowed = self.functions[key]
        if shared_bytes > allowed:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared_bytes)
            self.functions[key] = (function, shared_bytes)
        return function

    def workspace(self, device, stream, count):
        """Workspace of a stream; it grows on demand, and calls use it in turn. `None` where the memory is
        missing: then the smaller one stays."""
        address, size = self.workspaces.get((device, stream), (0, 0))
        if size >= count:
            return address
        larger = ctypes.c_uint64()
        status = self.library.cuMemAlloc_v2(ctypes.byref(larger), ctypes.c_size_t(count))
        if status == OUT_OF_MEMORY:
            return None
        self.must("cuMemAlloc_v2", status)
        self.workspaces[device, stream] = (larger.value, count)
        if address:
            # Waits for the kernels that use it.
            self.call("cuMemFree_v2", ctypes.c_uint64(address))
        return larger.value


@_once
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
        if any(stride % array.itemsize for stride in array.strides):
            raise GemmTunedError(f"elements of {name} are not whole elements apart: make a copy that is "
                                 "contiguous")
        strides = tuple(stride // array.itemsize for stride in array.strides)
    dtype = DTYPES.get(str(array.dtype))
    shape = tuple(array.shape)
    if dtype is None or len(shape) != 2 or 0 in shape:
        raise GemmTunedError(f"{name} is of {array.dtype} and shape {shape}: give a matrix of "
                             "float32 or int32")
    return device, address, dtype, shape, strides


def _stored(shape, strides, name):
    """Whether it is stored transposed, and the elements between rows as stored; a single row ends
    nowhere, so that its stride is its length."""
    (height, width), (down, across) = shape, strides
    if (across == 1 or width == 1) and (down >= width or height == 1):
        return "n", width if height == 1 else down
    if (down == 1 or height == 1) and (across >= height or width == 1):
        return "t", height if width == 1 else across
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


def _scalar(value, dtype, name):
    """A factor as a kernel takes it."""
    try:
        if dtype != "i32":
            return ctypes.c_float(value)
        whole = operator.index(value)
    except TypeError as error:
        raise GemmTunedError(f"{name} is {value!r}: give a number of {dtype}") from error
    if not -1 << 31 <= whole < 1 << 31:
        raise GemmTunedError(f"{name} is {value}: give a number of 32 bits")
    return ctypes.c_int(whole)


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
    if 0 in (a_at, b_at, c_at):
        raise GemmTunedError("an address is null: give matrices with memory")
    addresses = a_at | b_at | c_at
    alignment = min(ALIGNMENT, addresses & -addresses)
    pattern, rows = (dtype, COMPUTE[dtype], a_stored + b_stored), (lda, ldb, ldc)
    _check(dtype, pattern[2], (m, n, k), rows, alignment)
    values = dict(zip(STANDARD, (
        ctypes.c_uint64(a_at), ctypes.c_uint64(b_at), ctypes.c_uint64(c_at), ctypes.c_int(m),
        ctypes.c_int(n), ctypes.c_int(k), ctypes.c_int(1), ctypes.c_int(lda), ctypes.c_int(ldb),
        ctypes.c_int(ldc), ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_int64(0),
        _scalar(alpha, dtype, "alpha"), _scalar(beta, dtype, "beta"))))
    stream = _stream(a, device)
    with driver.lock, driver.entered(device) as (sms, architecture):
        at, room = None, SATURATED
        while at is None:
            kernel, sizes, spaces = _choose(pattern, m, n, k, rows, alignment, sms, room)
            # Where memory is missing, a kernel that needs less.
            at, room = driver.workspace(device, stream, sum(spaces)), sum(spaces) - 1
        for (name, _), space in zip(kernel.workspaces, spaces):
            values[name] = ctypes.c_uint64(at)
            at += space
        # All that can fail before the first launch is queued.
        functions = [driver.function(device, architecture, kernel, entry, size[6])
                     for (entry, _, _), size in zip(kernel.launches, sizes)]
        for function, (_, _, arguments), size in zip(functions, kernel.launches, sizes):
            given = (ctypes.c_void_p * len(arguments))(
                *(ctypes.addressof(values[argument]) for argument in arguments))
            driver.call("cuLaunchKernel", function, *(ctypes.c_uint(part) for part in size),
                        ctypes.c_void_p(stream), given, None)
    return out
