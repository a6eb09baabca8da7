"""In the place of PyTorch for tests/trace.rs: operators that a dispatch mode sees, on tensors without memory."""

import sys
import threading
import types

__version__ = "stand-in"
cuda = types.SimpleNamespace(is_initialized=lambda: False)
float32, float64, bfloat16 = "torch.float32", "torch.float64", "torch.bfloat16"


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
            return arguments[0]
        mode = _modes.stack.pop()
        try:
            return mode.__torch_dispatch__(self, (), arguments, named)
        finally:
            _modes.stack.append(mode)


class Tensor:
    device = types.SimpleNamespace(type="cpu")

    def __init__(self, shape, strides, dtype=float32):
        self.shape, self.strides, self.dtype = shape, strides, dtype

    def dim(self):
        return len(self.shape)

    def numel(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def stride(self):
        return self.strides


def packed(*shape, dtype=float32):
    strides = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return Tensor(shape, tuple(strides), dtype)


mm, addmm, bmm, add = (_Operator(f"{name}.default") for name in ("mm", "addmm", "bmm", "add"))
utils = types.ModuleType("torch.utils")
_python_dispatch = types.ModuleType("torch.utils._python_dispatch")
_python_dispatch.TorchDispatchMode = TorchDispatchMode
sys.modules.update({"torch.utils": utils, "torch.utils._python_dispatch": _python_dispatch})
