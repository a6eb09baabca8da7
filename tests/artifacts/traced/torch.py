"""In the place of PyTorch for tests/trace.rs: operators that a dispatch mode sees, on tensors without memory."""

import contextlib
import sys
import threading
import types

__version__ = "stand-in"
float32, float64, bfloat16 = "torch.float32", "torch.float64", "torch.bfloat16"


class _Gpu:
    """A stream that a host queues kernels on: both have a clock, in microseconds."""

    # What an operator takes of the host, in its first call and later, and of the GPU.
    LOADED, QUEUED, KERNEL = 50_000, 60, 14

    def __init__(self):
        self.host = self.done = 0.0
        self.loaded = False

    def queue(self, us):
        self.done = max(self.done, self.host) + us

    def multiply(self):
        self.host += self.QUEUED if self.loaded else self.LOADED
        self.loaded = True
        self.queue(self.KERNEL)


_gpu = _Gpu()


class _Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self, _stream):
        _gpu.host += 5
        self.at = max(_gpu.done, _gpu.host)

    def query(self):
        return self.at <= _gpu.host

    def elapsed_time(self, other):
        return (other.at - self.at) / 1e3


def _synchronize():
    _gpu.host = max(_gpu.host, _gpu.done)


cuda = types.SimpleNamespace(
    is_initialized=lambda: True, is_current_stream_capturing=lambda: False, current_stream=lambda: None, Event=_Event,
    get_device_name=lambda _: "a GPU", device=contextlib.nullcontext, synchronize=_synchronize,
    _sleep=lambda cycles: _gpu.queue(cycles / 1.7e3))
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(fp32_precision="ieee")))


class _Modes(threading.local):
    """The modes of a thread."""

    def __init__(self):
        self.stack = []


_modes = _Modes()


class TorchDispatchMode:
    def __enter__(self):
        _modes.stack.append(self)
        return self

    def __exit__(self, *_):
        _modes.stack.remove(self)


class _Operator:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"aten.{self.name}"

    def __call__(self, *arguments, **named):
        if not _modes.stack:
            if arguments[0].device.type == "cuda":
                _gpu.multiply()
            return arguments[0]
        mode = _modes.stack.pop()
        try:
            return mode.__torch_dispatch__(self, (), arguments, named)
        finally:
            _modes.stack.append(mode)


class Tensor:
    def __init__(self, shape, strides, dtype=float32, device="cpu"):
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.device = types.SimpleNamespace(type=device)

    def dim(self):
        return len(self.shape)

    def numel(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def stride(self):
        return self.strides


def packed(*shape, dtype=float32, device="cpu"):
    strides = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return Tensor(shape, tuple(strides), dtype, device)


mm, addmm, bmm, add = (_Operator(f"{name}.default") for name in ("mm", "addmm", "bmm", "add"))
utils = types.ModuleType("torch.utils")
_python_dispatch = types.ModuleType("torch.utils._python_dispatch")
_python_dispatch.TorchDispatchMode = TorchDispatchMode
sys.modules.update({"torch.utils": utils, "torch.utils._python_dispatch": _python_dispatch})
