"""In the place of PyTorch: matrices that have addresses and strides, and no memory. An exported module takes
them, for their type is of a module of this name. The second part is what the operators use."""

import math
import types

__version__ = "2.3"
float32, int32, float64, uint8 = "torch.float32", "torch.int32", "torch.float64", "torch.uint8"
float16, bfloat16, int8 = "torch.float16", "torch.bfloat16", "torch.int8"


class OutOfMemoryError(RuntimeError):
    pass


_place = _room = 0
# Bytes that were asked for, and whether they were there.
allocations = []


def memory(place, room):
    """Sets where the next workspace lies, and the memory that is left for it."""
    global _place, _room
    _place, _room = place, room
    allocations.clear()


class Device(int):
    """The ordinal of a GPU, or -1 for the host."""

    @property
    def type(self):
        return "cuda" if self >= 0 else "cpu"


class Tensor:
    requires_grad = False

    def __init__(self, address, shape, strides, dtype=float32, device=0):
        self.address, self.shape, self.strides = address, shape, strides
        self.dtype, self.device = dtype, Device(device)

    def __getitem__(self, places):
        """The first rows or columns; of none, no address is known."""
        ends = [one.stop for one in places if isinstance(one, slice)]
        last = len(self.shape) - len(ends)
        kept = tuple(own if end is None else end for own, end in zip(self.shape[last:], ends))
        return Tensor(0 if 0 in kept else self.address, (*self.shape[:last], *kept), self.strides, self.dtype, self.device)

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def is_contiguous(self):
        return self.strides == _packed(self.shape)

    def contiguous(self):
        return self.new_empty(*self.shape)

    def reshape(self, *shape):
        rest = self.numel() // -math.prod(shape)
        shape = tuple(rest if one < 0 else one for one in shape)
        is_view = self.is_contiguous() or len(self.shape) == len(shape)
        return Tensor(self.address if is_view else 1 << 43, shape, _packed(shape), self.dtype, self.device)

    def view(self, shape):
        return self.reshape(*shape)

    def expand(self, shape):
        return Tensor(self.address, shape, self.strides, self.dtype, self.device)

    def clone(self, memory_format):
        return self.contiguous()

    @property
    def mT(self):
        *batch, m, n = self.shape
        *rest, down, across = self.strides
        return Tensor(self.address, (*batch, n, m), (*rest, across, down), self.dtype, self.device)

    def get_device(self):
        return self.device

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides

    def new_empty(self, *shape, dtype=None):
        return Tensor(1 << 43, shape, _packed(shape), dtype or self.dtype)


def _packed(shape):
    return tuple(math.prod(shape[place + 1:]) for place in range(len(shape)))


def device(kind, ordinal):
    return f"{kind}:{ordinal}"


def empty(count, dtype, device):
    allocations.append((count, count <= _room))
    if count > _room:
        raise OutOfMemoryError(f"{count} bytes on {device}")
    return Tensor(_place, (count,), (1,), dtype)


class _Stream:
    cuda_stream = 8


class cuda:
    @staticmethod
    def current_stream(device):
        return _Stream


# What the operators use ---------------------------------------------------------------------------

def is_grad_enabled():
    return True


# Names of functions that were called in the place of kernels.
computed = []


def _computes(name):
    def call(*operands, **_):
        computed.append(name)
        first = operands[0]
        shape = first.shape if len(operands) == 1 else (*operands[-2].shape[:-1], operands[-1].shape[-1])
        return first.new_empty(*shape)
    return call


matmul, addmm = _computes("matmul"), _computes("addmm")
contiguous_format = "contiguous"
Tag = types.SimpleNamespace(pt2_compliant_tag="pt2_compliant_tag")
autograd = types.SimpleNamespace(Function=object)
_C = types.SimpleNamespace(DispatchKeySet=str, DispatchKey=types.SimpleNamespace(AutocastCUDA=1, AutocastCPU=2))
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False)))
ops = types.SimpleNamespace(gemm_tuned=types.SimpleNamespace())


class _Operator:
    """An operator, which runs its implementation for CUDA."""

    def __call__(self, *arguments, **named):
        return self.implementation(*arguments, **named)

    @property
    def default(self):
        return self


class _Library:
    def __init__(self, namespace, kind):
        self.namespace = namespace

    def define(self, schema, tags):
        setattr(ops.gemm_tuned, schema.split("(")[0], _Operator())

    def impl(self, name, function, key):
        if key == "CUDA":
            getattr(ops.gemm_tuned, name).implementation = function


library = types.SimpleNamespace(Library=_Library, register_fake=lambda *_, **__: None,
                                register_autograd=lambda *_, **__: None)


class Parameter(Tensor):
    pass


class Module:
    def named_modules(self):
        return [("", self), *((name, one) for name, one in vars(self).items() if isinstance(one, Module))]

    def __call__(self, x):
        return self.forward(x)


class Linear(Module):
    def __init__(self, weight, bias=None):
        self.weight, self.bias = weight, bias
        self._parameters = {"weight": weight, "bias": bias}

    def forward(self, x):
        return _computes("linear")(x, self.weight.mT)


nn = types.SimpleNamespace(Module=Module, Linear=Linear, Parameter=Parameter, functional=types.SimpleNamespace(
    **{name: _computes(name) for name in ("relu", "gelu", "silu")}))
