"""Arrays of PyTorch and CuPy for gemm_tuned.py: functions for each package, and how matrices lie in memory.

Neither package is imported before an array of it is met.
"""

import importlib
import typing

if __package__:
    from .gemm_tuned_library import BF16, F16, F32, I32, I8, GemmTunedError
else:
    from gemm_tuned_library import BF16, F16, F32, I32, I8, GemmTunedError

ARRAY_DTYPES = {"torch.float32": F32, "torch.int32": I32, "torch.float16": F16, "torch.bfloat16": BF16,
                "torch.int8": I8, "float32": F32, "int32": I32, "float16": F16, "bfloat16": BF16, "int8": I8}
# Names of the dtype of a result in PyTorch and CuPy.
ARRAY_NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16", I32: "int32", I8: "int8"}
# Strides that are remembered.
MAX_STRIDES = 4096


class Adapter(typing.NamedTuple):
    """What is done with the arrays of a package."""

    # Device, dtype, shape and strides in elements of an array: what a call is remembered by.
    described: typing.Callable
    address: typing.Callable
    # A new array beside another one: of a shape and the number of a dtype.
    empty: typing.Callable
    # An array of so many bytes on a device.
    workspace: typing.Callable
    # The address of the current stream of a device.
    stream: typing.Callable
    out_of_memory: type
    # Whether the current stream of a device may have a workspace of its own.
    may_reserve: typing.Callable


def torch_adapter():
    """Functions for PyTorch tensors."""
    import torch

    raw_stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)

    def stream(device):
        return torch.cuda.current_stream(device).cuda_stream

    def described(array):
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
        # A captured graph has a workspace of its own.
        return current() == device and not captured()

    out_of_memory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return Adapter(described, address, empty, workspace, raw_stream or stream, out_of_memory,
                   may_reserve if current and captured else reserves_nothing)


def reserves_nothing(_device):
    """Streams have no workspaces of their own."""
    return False


def cupy_adapter():
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
        if len(strides_of) >= MAX_STRIDES:
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
    return Adapter(described, address, empty, workspace, stream, cupy.cuda.memory.OutOfMemoryError, reserves_nothing)


# By the type of an array; parameters of PyTorch share the adapter of its tensors.
adapters = {}
adapters_of_packages = {}


def adapter_of_array(array):
    """The functions for arrays of a type."""
    kind = type(array).__module__.split(".")[0]
    if kind not in ("torch", "cupy"):
        raise GemmTunedError(f"an operand is a {type(array).__name__}: give PyTorch tensors or CuPy arrays on "
                             "an NVIDIA GPU")
    adapter = adapters[type(array)] = adapter_of(kind)
    return adapter


def adapter_of(package):
    """The functions for arrays of a package."""
    if package not in adapters_of_packages:
        adapters_of_packages[package] = torch_adapter() if package == "torch" else cupy_adapter()
    return adapters_of_packages[package]


def stored(name, shape, strides):
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


def matrix_of(name, described):
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


def check_operand(name, described, out):
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
