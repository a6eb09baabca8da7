"""Products of PyTorch tensors with the kernels of gemm_tuned. How a product is computed is decided once: a plan keeps
it, and later products of tensors of the same types, shapes and strides look the plan up.

gemm_tuned_torch.py uses this module; programs use gemm_tuned_torch.
"""

import typing
import warnings

import torch

if __package__:
    from . import gemm_tuned, gemm_tuned_arrays as arrays
else:
    import gemm_tuned
    import gemm_tuned_arrays as arrays

GemmTunedError, NoKernelError = gemm_tuned.GemmTunedError, gemm_tuned.NoKernelError
functional = torch.nn.functional
DTYPES = {torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8}
# Activations of `linear`, as PyTorch computes them where no kernel does.
ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": lambda value: functional.gelu(value, approximate="tanh"),
    "silu": functional.silu,
}
# Devices of tensors that kernels multiply.
KERNEL_DEVICES = {"cuda"}

# By all that decides: see _key.
_plans = {}
_said = set()


def _say_once(what, text):
    if what not in _said:
        _said.add(what)
        warnings.warn(text, stacklevel=2)


# Plans --------------------------------------------------------------------------------------------

class _Way(typing.NamedTuple):
    """How a product is computed: the epilogue of its kernel, the operand of the call that the addend is, and the
    activation that PyTorch computes afterwards."""

    epilogue: str = ""
    addend: str = ""
    activation: str = ""


def _ways(addend, activation):
    """All ways, the best one first. The addend is a `bias`, a `residual`, another `out`, or none."""
    parts = [addend] if addend in ("bias", "residual") else []
    fused = [_Way(",".join([*parts, activation]), addend, "")] if activation else []
    partly = [_Way(parts[0], addend, activation)] if parts else []
    return (*fused, *partly, _Way("", "out" if addend else "", activation))


WAYS = {(addend, activation): _ways(addend, activation)
        for addend in ("", "bias", "residual", "out") for activation in ("", *ACTIVATIONS)}


class Work(typing.NamedTuple):
    """What is done to a product: activation(alpha * product + beta * addend)."""

    addend: typing.Optional[torch.Tensor] = None
    activation: str = ""
    alpha: float = 1
    beta: float = 1

    def kind(self, shape):
        """What the addend can be for a result of that shape: see _ways."""
        if self.addend is None or self.beta == 0:
            return ""
        if self.beta != 1 or not self.addend.is_contiguous():
            return "out"
        if self.addend.shape == shape[-1:]:
            return "bias"
        return "residual" if self.addend.shape == shape else "out"

    def by_torch(self, product):
        """The same of a product that was computed."""
        if self.alpha != 1:
            product = product * self.alpha
        if self.addend is not None and self.beta != 0:
            product = product + (self.addend if self.beta == 1 else self.addend * self.beta)
        return ACTIVATIONS[self.activation](product) if self.activation else product


class _Plan:
    """A product in one way: its call, the shape of its result, and the dtype if that is not the one of the operands."""

    __slots__ = ("launch", "shape", "dtype", "addend", "activation")

    def __init__(self, call, shape, dtype, way):
        self.launch, self.shape, self.dtype = call.launch, shape, dtype
        self.addend, self.activation = way.addend, ACTIVATIONS.get(way.activation)

    def run(self, a, a_at, b_at, addend, alpha, beta):
        """The product of the tensors at these addresses; `a` is one of them."""
        if self.addend == "out":
            out = addend.expand(self.shape).clone(memory_format=torch.contiguous_format)
            self.launch(a_at, b_at, out.data_ptr(), alpha, beta)
        else:
            # Extents are taken in half the time of a tuple of them.
            out = a.new_empty(*self.shape) if self.dtype is None else a.new_empty(*self.shape, dtype=self.dtype)
            if not self.addend:
                self.launch(a_at, b_at, out.data_ptr(), alpha)
            elif self.addend == "bias":
                self.launch(a_at, b_at, out.data_ptr(), alpha, bias=addend.data_ptr())
            else:
                self.launch(a_at, b_at, out.data_ptr(), alpha, residual=addend.data_ptr())
        return out if self.activation is None else self.activation(out)


def _tf32_setting():
    """A function that says whether PyTorch may multiply float32 as tf32."""
    matmul = torch.backends.cuda.matmul
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is not None and hasattr(matmul, "fp32_precision"):
        # What `matmul.fp32_precision` calls.
        return lambda: getter("cuda", "matmul") == "tf32"
    return lambda: matmul.allow_tf32


allows_tf32 = _tf32_setting()


def _key(name, a, b, a_at, b_at, addend, activation, beta):
    """All that decides how a product is computed: the operator, dtypes, devices, shapes, strides, the alignment of the
    addresses, what is done to the product, and whether tf32 is allowed. The values of factors decide nothing, except
    1 and 0 of beta."""
    low = a_at | b_at | gemm_tuned.ALIGNMENT
    dtype = a.dtype
    of_addend = None if addend is None else (
        addend.dtype, addend.device, addend.shape, addend.stride(), beta if beta == 0 or beta == 1 else 2)
    return (name, dtype, a.device, a.shape, a.stride(), b.dtype, b.device, b.shape, b.stride(), low & -low,
            dtype is torch.float32 and allows_tf32(), activation, of_addend)


def by_plan(name, a, b, addend=None, activation="", alpha=1, beta=1):
    """The product by the plan for such tensors; None if there is none."""
    try:
        a_at, b_at = a.data_ptr(), b.data_ptr()
        plan = _plans.get(_key(name, a, b, a_at, b_at, addend, activation, beta))
    except RuntimeError:
        # Tensors without strides or addresses, such as sparse ones, are for PyTorch to refuse.
        return None
    if plan is None or alpha == 0:
        return None
    try:
        return plan.run(a, a_at, b_at, addend, alpha, beta)
    except NoKernelError:
        # Memory is missing for its workspace: another way may need less.
        return None


# Products -----------------------------------------------------------------------------------------

def _is_readable(matrix):
    """Whether kernels read a matrix, or each of a batch, as it lies: see stored in gemm_tuned_arrays.py."""
    (height, width), (down, across) = matrix.shape[-2:], matrix.stride()[-2:]
    return ((across == 1 or width == 1) and (down >= width or height == 1)
            or (down == 1 or height == 1) and (across >= height or width == 1))


def say_copied(name, tensor):
    _say_once("copy", "gemm_tuned copies operands that no kernel reads as they lie, first "
              f"{name} of shape {tuple(tensor.shape)} with strides {tensor.stride()}")


def _readable(matrix, name):
    if _is_readable(matrix):
        return matrix
    say_copied(name, matrix)
    return matrix.contiguous()


def _unfit(a, b, addend):
    """Why no kernel can multiply these; None if one may."""
    for one in (b,) if addend is None else (b, addend):
        if one.device != a.device:
            return f"the operands are on {a.device} and {one.device}: move them to one GPU"
        if one.dtype != (result_dtype(a) if one is addend else a.dtype):
            return f"the operands are of {a.dtype} and {one.dtype}: give tensors of one dtype, as autocast does"
    if a.device.type not in KERNEL_DEVICES:
        return f"the operands are on {a.device}: move them to an NVIDIA GPU"
    if a.dtype not in DTYPES:
        return f"the operands are of {a.dtype}: give float32, float16, bfloat16, int32 or int8"
    return None


def result_dtype(a):
    return torch.int32 if a.dtype == torch.int8 else a.dtype


def _plan(a, b, shape, work, way, compute):
    """The plan of a product in one way, for operands at such addresses."""
    adapter = arrays.adapter_of("torch")
    described = adapter.described
    low = a.data_ptr() | b.data_ptr() | gemm_tuned.ALIGNMENT
    others = ((way.addend, described(work.addend)),) if way.addend in gemm_tuned.OPERANDS else ()
    key = described(a), described(b), None, low & -low, (None, compute, way.epilogue), others
    dtype = result_dtype(a)
    return _Plan(gemm_tuned.prepared(adapter, key), shape, None if dtype == a.dtype else dtype, way)


def _first_plan(key, a, b, shape, work):
    """The product in the first way that the library has kernels for, which is the plan of that key from then on."""
    last = None
    for compute in ("tf32", None) if a.dtype == torch.float32 and allows_tf32() else (None,):
        for way in WAYS[work.kind((*a.shape[:-1], b.shape[-1])), work.activation]:
            try:
                plan = _plan(a, b, shape, work, way, compute)
                value = plan.run(a, a.data_ptr(), b.data_ptr(), work.addend, work.alpha, work.beta)
            except NoKernelError as error:
                last = error
                continue
            if len(_plans) >= gemm_tuned.MAX_CALLS:
                _plans.clear()
            _plans[key] = plan
            return value
    raise last


def _by_kernels(name, operands, a, b, shape, work):
    """The product of matrices as `product` has them: of copies where no kernel reads them as they lie."""
    is_copied = operands is None or not (_is_readable(a) and _is_readable(b))
    if is_copied:
        name, operands = "copied", (_readable(a, "a"), _readable(b, "b"))
        value = by_plan(name, *operands, *work)
        if value is not None:
            return value.view(shape)
        a, b = operands
    key = _key(name, *operands, *(one.data_ptr() for one in operands), work.addend, work.activation, work.beta)
    value = _first_plan(key, a, b, (*a.shape[:-1], b.shape[-1]) if is_copied else shape, work)
    return value.view(shape) if is_copied else value


def product(name, operands, a, b, shape, work, fallback):
    """The product of matrices or batches whose shapes fit. `operands` are the tensors that the operator of that name
    was called with, which the matrices are views of; None for those of copies."""
    why = _unfit(a, b, work.addend)
    if why is None and (a.numel() == 0 or b.numel() == 0 or work.alpha == 0):
        return work.by_torch(a.new_zeros((*a.shape[:-1], b.shape[-1]), dtype=result_dtype(a))).view(shape)
    kind = why
    if why is None:
        try:
            return _by_kernels(name, operands, a, b, shape, work)
        except NoKernelError as error:
            if not fallback:
                raise
            kind, why = a.dtype, str(error)
    elif not fallback:
        raise GemmTunedError(why)
    _say_once(kind, f"PyTorch multiplies where gemm_tuned cannot, first: {why}")
    if a.dtype == torch.int8:
        a, b = a.int(), b.int()
    if a.dim() == 2 and work.addend is not None:
        value = torch.addmm(work.addend, a, b, beta=work.beta, alpha=work.alpha)
        value = ACTIVATIONS[work.activation](value) if work.activation else value
    else:
        value = work.by_torch(torch.matmul(a, b))
    return value.view(shape)
