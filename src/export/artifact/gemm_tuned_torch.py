"""PyTorch operators that multiply with the kernels of gemm_tuned, for PyTorch 2.4 and later.

    import gemm_tuned
    patch = gemm_tuned.patch_linear(model)     # nn.Linear modules use the kernels; patch.undo() reverts that
    d = gemm_tuned.linear(x, weight, bias, "gelu")            # also mm, addmm and bmm
    import gemm_tuned_torch                    # registers torch.ops.gemm_tuned.mm, addmm, bmm, linear and matmul

Call the functions rather than the operators: where nothing but the product is to be done, they leave PyTorch's
dispatcher out, which takes most of the host time of a call.
The operators work in eager mode, with autograd, autocast, torch.compile and in CUDA graphs. They take any strides: an
operand of which neither rows nor columns are contiguous is copied, and a warning says so once. float32 is multiplied
as tf32 where the settings of PyTorch allow that and the library has such kernels. An epilogue that the library has no
kernel for is computed by PyTorch after the product. `matmul` has all epilogues and dtypes of gemm_tuned.matmul; its
gradients are defined for the epilogues of bias and residual.

Where the library has no kernel, an operator raises GemmTunedError. With `fallback` it uses PyTorch, and a warning says
so once; patched modules and backward products do this.
"""

import math

import torch

if __package__:
    from . import gemm_tuned, gemm_tuned_matmul as general, gemm_tuned_products as products
else:
    import gemm_tuned
    import gemm_tuned_matmul as general
    import gemm_tuned_products as products

if not hasattr(torch.library, "register_autograd"):
    raise ImportError(f"the operators of gemm_tuned need PyTorch 2.4 or later, and this is {torch.__version__}: "
                      "call gemm_tuned.matmul instead")

__all__ = ["ACTIVATIONS", "Patch", "TunedLinear", "addmm", "bmm", "linear", "mm", "patch_linear"]

GemmTunedError, ACTIVATIONS, Work = gemm_tuned.GemmTunedError, products.ACTIVATIONS, products.Work
by_plan = products.by_plan
# Dispatch keys with an implementation, which refuses tensors of the host or falls back.
DEVICES = {"cuda": ("CUDA", "AutocastCUDA"), "cpu": ("CPU", "AutocastCPU")}

_operators, OPERATORS = torch.library.Library("gemm_tuned", "DEF"), torch.ops.gemm_tuned


# Operators ----------------------------------------------------------------------------------------

def _must(holds, words):
    if not holds:
        raise GemmTunedError(words())


def _mm_shape(a, b, dimensions=2):
    _must(a.dim() == b.dim() == dimensions and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2],
          lambda: f"a {tuple(a.shape)} and b {tuple(b.shape)} have no product: give "
                  f"{'matrices' if dimensions == 2 else 'batches of matrices of one size'} whose inner extents agree")
    return (*a.shape[:-1], b.shape[-1])


def _addmm_shape(input, a, b):
    shape = _mm_shape(a, b)
    fits = input.dim() <= 2 and all(own in (1, whole) for own, whole in zip(input.shape[::-1], shape[::-1]))
    _must(fits, lambda: f"input has shape {tuple(input.shape)}: give one that expands to {tuple(shape)}")
    return shape


def _linear_shape(input, weight, bias, activation):
    _must(input.dim() >= 1 and weight.dim() == 2 and input.shape[-1] == weight.shape[1],
          lambda: f"input {tuple(input.shape)} and weight {tuple(weight.shape)} have no product: give a weight of "
                  "(out features, in features)")
    _must(bias is None or bias.shape == weight.shape[:1],
          lambda: f"bias has shape {tuple(bias.shape)}: give one of {tuple(weight.shape[:1])}")
    _must(not activation or activation in ACTIVATIONS,
          lambda: f"`{activation}` is no activation: choose one of {', '.join(ACTIVATIONS)}, or none")
    return (*input.shape[:-1], weight.shape[0])


def _mm(a, b, fallback=False):
    value = by_plan("mm", a, b)
    return products.product("mm", (a, b), a, b, _mm_shape(a, b), Work(), fallback) if value is None else value


def _mm_fake(a, b, fallback=False):
    return a.new_empty(_mm_shape(a, b), dtype=products.result_dtype(a))


def _bmm(a, b, fallback=False):
    value = by_plan("bmm", a, b)
    return products.product("bmm", (a, b), a, b, _mm_shape(a, b, 3), Work(), fallback) if value is None else value


def _bmm_fake(a, b, fallback=False):
    return a.new_empty(_mm_shape(a, b, 3), dtype=products.result_dtype(a))


def _addmm(input, a, b, beta=1, alpha=1, fallback=False):
    value = by_plan("addmm", a, b, input, "", alpha, beta)
    if value is not None:
        return value
    return products.product("addmm", (a, b), a, b, _addmm_shape(input, a, b), Work(input, "", alpha, beta), fallback)


def _addmm_fake(input, a, b, beta=1, alpha=1, fallback=False):
    return a.new_empty(_addmm_shape(input, a, b), dtype=products.result_dtype(a))


def _linear(input, weight, bias=None, activation="", fallback=False):
    value = by_plan("linear", input, weight, bias, activation)
    if value is not None:
        return value
    shape = _linear_shape(input, weight, bias, activation)
    extents = (-1, input.shape[-1]) if input.numel() else (math.prod(shape[:-1]), weight.shape[1])
    rows = input.reshape(*extents)
    operands = input, weight
    if input.dim() > 2 and input.numel() and rows.data_ptr() != input.data_ptr():
        products.say_copied("input", input)
        operands = None
    return products.product("linear", operands, rows, weight.mT, shape, Work(bias, activation), fallback)


def _linear_fake(input, weight, bias=None, activation="", fallback=False):
    return input.new_empty(_linear_shape(input, weight, bias, activation), dtype=products.result_dtype(input))


# Gradients: products of the same operators, which use PyTorch where the library has no kernel. ---------

def _needs(ctx, *places):
    """Which operands need a gradient. Arguments that have their defaults are not listed in the context."""
    needs = ctx.needs_input_grad
    return [place < len(needs) and needs[place] for place in places]


def _save(ctx, a, b, places=(0, 1)):
    """Saves what the gradients of a product need."""
    of_a, of_b = _needs(ctx, *places)
    ctx.save_for_backward(a if of_b else None, b if of_a else None)


def _grads(ctx, multiply, grad, places=(0, 1)):
    a, b = ctx.saved_tensors
    of_a, of_b = _needs(ctx, *places)
    return (multiply(grad, b.mT, fallback=True) if of_a else None,
            multiply(a.mT, grad, fallback=True) if of_b else None)


def _mm_setup(ctx, inputs, output):
    _save(ctx, *inputs[:2])


def _mm_backward(ctx, grad):
    return *_grads(ctx, mm, grad), None


def _bmm_backward(ctx, grad):
    return *_grads(ctx, bmm, grad), None


def _addmm_setup(ctx, inputs, output):
    input, a, b, ctx.beta, ctx.alpha, _ = inputs
    ctx.shape = input.shape
    _save(ctx, a, b, (1, 2))


def _addmm_backward(ctx, grad):
    of_input = grad.sum_to_size(ctx.shape) * ctx.beta if _needs(ctx, 0)[0] else None
    scaled = grad if ctx.alpha == 1 else grad * ctx.alpha
    return of_input, *_grads(ctx, mm, scaled, (1, 2)), None, None, None


def _linear_setup(ctx, inputs, output):
    input, weight, bias, ctx.activation, _ = inputs
    if ctx.activation in ("", "relu"):
        of_input, of_weight = _needs(ctx, 0, 1)
        saved = input if of_weight else None, weight if of_input else None, None, output if ctx.activation else None
    else:
        saved = input, weight, bias, None
    ctx.save_for_backward(*saved)


def _linear_backward(ctx, grad):
    input, weight, bias, output = ctx.saved_tensors
    aten = torch.ops.aten
    if ctx.activation == "relu":
        grad = aten.threshold_backward(grad, output, 0)
    elif ctx.activation:
        # The value before the activation is computed again instead of kept.
        value = linear(input, weight, bias, fallback=True)
        if ctx.activation == "silu" and torch.is_grad_enabled():
            # For second derivatives, which silu_backward has none of.
            part = torch.sigmoid(value)
            grad = grad * part * (1 + value * (1 - part))
        elif ctx.activation == "silu":
            grad = aten.silu_backward(grad, value)
        else:
            grad = aten.gelu_backward(grad, value, approximate="tanh" if ctx.activation == "gelu-tanh" else "none")
    of_input, of_weight, of_bias = _needs(ctx, 0, 1, 2)
    rows = grad.reshape(-1, grad.shape[-1])
    return (mm(rows, weight, fallback=True).view((*grad.shape[:-1], weight.shape[1])) if of_input else None,
            mm(rows.mT, input.reshape(-1, input.shape[-1]), fallback=True) if of_weight else None,
            rows.sum(0) if of_bias else None, None, None)


# Registration -------------------------------------------------------------------------------------

def _cast_all(arguments, cast, dtype):
    return [cast(one, dtype) for one in arguments]


def _autocast(operator, device, key, cast_all):
    """An operator under autocast: its floating-point operands in the dtype of autocast."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def cast(one, dtype):
        is_cast = isinstance(one, torch.Tensor) and one.is_floating_point() and one.dtype != torch.float64
        return one.to(dtype) if is_cast and one.device.type == device else one

    def call(*arguments):
        dtype = torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*cast_all(arguments, cast, dtype))

    return call


def _register(schema, implementation, fake, setup, backward, cast_all=_cast_all):
    name = schema.split("(")[0]
    _operators.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(torch.ops.gemm_tuned, name).default
    for device, (key, autocast_key) in DEVICES.items():
        _operators.impl(name, implementation, key)
        _operators.impl(name, _autocast(operator, device, autocast_key, cast_all), autocast_key)
    torch.library.register_fake(f"gemm_tuned::{name}", fake, lib=_operators)
    torch.library.register_autograd(f"gemm_tuned::{name}", backward, setup_context=setup, lib=_operators)


_register("mm(Tensor a, Tensor b, bool fallback=False) -> Tensor", _mm, _mm_fake, _mm_setup, _mm_backward)
_register("bmm(Tensor a, Tensor b, bool fallback=False) -> Tensor", _bmm, _bmm_fake, _mm_setup, _bmm_backward)
_register("addmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1, bool fallback=False) -> Tensor",
          _addmm, _addmm_fake, _addmm_setup, _addmm_backward)
_register("linear(Tensor input, Tensor weight, Tensor? bias=None, str activation=\"\", bool fallback=False) -> Tensor",
          _linear, _linear_fake, _linear_setup, _linear_backward)
_register(general.SCHEMA, general.matmul, general.fake, general.setup, general.backward, general.autocast)


# Functions ----------------------------------------------------------------------------------------

NUMBERS = {int, float}


def _plainness():
    """A function that says whether a product and its gradients are all that is to be done, so that PyTorch's dispatcher
    can be left out. Else operators are needed: for tensors with code of their own, and where operators are seen or
    changed by a compiler, a mode, a transform of torch.func, autocast, a profiler, a tracer or forward-mode gradients."""
    Tensor, Parameter = torch.Tensor, torch.nn.Parameter
    try:
        is_compiling, is_tracing = torch.compiler.is_compiling, torch._C._is_tracing
        modes, function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
        transform, has_autocast = torch._C._functorch.peek_interpreter_stack, torch._C._is_any_autocast_enabled
        has_profiler, forward_mode = torch._C._autograd._profiler_enabled, torch.autograd.forward_ad
        is_known = type(forward_mode._current_level) is int
    except AttributeError:
        is_known = False
    if not is_known:
        # A PyTorch that says this otherwise.
        return lambda *_: False

    def is_plain(a, b, addend=None):
        if (is_compiling() or modes() or function_modes() or transform() is not None or has_autocast()
                or has_profiler() or is_tracing() or forward_mode._current_level >= 0):
            return False
        # Of some views the negative lies in memory.
        return ((type(a) is Tensor or type(a) is Parameter) and not a.is_neg()
                and (type(b) is Tensor or type(b) is Parameter) and not b.is_neg()
                and (addend is None or (type(addend) is Tensor or type(addend) is Parameter) and not addend.is_neg()))

    return is_plain


_is_plain = _plainness()


def _quick_mm(a, b, fallback):
    value = by_plan("mm", a, b)
    return OPERATORS.mm.default(a, b, fallback) if value is None else value


def _quick_bmm(a, b, fallback):
    value = by_plan("bmm", a, b)
    return OPERATORS.bmm.default(a, b, fallback) if value is None else value


def _quick_addmm(input, a, b, beta, alpha, fallback):
    value = by_plan("addmm", a, b, input, "", alpha, beta)
    return OPERATORS.addmm.default(input, a, b, beta, alpha, fallback) if value is None else value


def _quick_linear(input, weight, bias, activation, fallback):
    value = by_plan("linear", input, weight, bias, activation)
    return OPERATORS.linear.default(input, weight, bias, activation, fallback) if value is None else value


def _with_gradient(call, setup, backward):
    """A function with the gradients of its operator."""
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *arguments):
            value = call(*arguments)
            setup(ctx, arguments, value)
            return value

    Product.backward = staticmethod(backward)
    return Product


_MmFunction = _with_gradient(_quick_mm, _mm_setup, _mm_backward)
_BmmFunction = _with_gradient(_quick_bmm, _mm_setup, _bmm_backward)
_AddmmFunction = _with_gradient(_quick_addmm, _addmm_setup, _addmm_backward)
_LinearFunction = _with_gradient(_quick_linear, _linear_setup, _linear_backward)


def mm(a, b, *, fallback=False):
    """a @ b of matrices, as torch.ops.gemm_tuned.mm in less host time."""
    if not _is_plain(a, b):
        return OPERATORS.mm.default(a, b, fallback)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _MmFunction.apply(a, b, fallback)
    return _quick_mm(a, b, fallback)


def bmm(a, b, *, fallback=False):
    """a @ b of batches of matrices, as torch.ops.gemm_tuned.bmm in less host time."""
    if not _is_plain(a, b):
        return OPERATORS.bmm.default(a, b, fallback)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _BmmFunction.apply(a, b, fallback)
    return _quick_bmm(a, b, fallback)


def addmm(input, a, b, *, beta=1, alpha=1, fallback=False):
    """beta * input + alpha * a @ b, as torch.ops.gemm_tuned.addmm in less host time."""
    if type(beta) not in NUMBERS or type(alpha) not in NUMBERS or not _is_plain(a, b, input):
        return OPERATORS.addmm.default(input, a, b, beta, alpha, fallback)
    if torch.is_grad_enabled() and (input.requires_grad or a.requires_grad or b.requires_grad):
        return _AddmmFunction.apply(input, a, b, beta, alpha, fallback)
    return _quick_addmm(input, a, b, beta, alpha, fallback)


def _is_trained(input, weight, bias):
    return torch.is_grad_enabled() and (
        input.requires_grad or weight.requires_grad or bias is not None and bias.requires_grad)


def linear(input, weight, bias=None, activation="", *, fallback=False):
    """activation(input @ weight.T + bias), as torch.ops.gemm_tuned.linear in less host time. Where a gradient needs
    the value before the activation, PyTorch computes the activation: the value is kept and not computed again."""
    if activation in ACTIVATIONS and activation != "relu" and _is_trained(input, weight, bias):
        return ACTIVATIONS[activation](linear(input, weight, bias, fallback=fallback))
    if not _is_plain(input, weight, bias):
        return OPERATORS.linear.default(input, weight, bias, activation, fallback)
    if _is_trained(input, weight, bias):
        return _LinearFunction.apply(input, weight, bias, activation, fallback)
    return _quick_linear(input, weight, bias, activation, fallback)


# Models -------------------------------------------------------------------------------------------

class TunedLinear(torch.nn.Linear):
    """nn.Linear that multiplies with `linear`, and with PyTorch where the library has no kernel."""

    def forward(self, input):
        own = self._parameters
        try:
            # In a quarter of the time that nn.Module takes to find them.
            weight, bias = own["weight"], own["bias"]
        except KeyError:
            # Computed of others, as by torch.nn.utils.parametrize.
            weight, bias = self.weight, self.bias
        return linear(input, weight, bias, fallback=True)


class Patch:
    """Modules that patch_linear replaced. As a context manager it reverts that at the end."""

    def __init__(self, modules):
        self.modules = modules

    def undo(self):
        """Makes them nn.Linear again. A second call does nothing."""
        for module in self.modules.values():
            if type(module) is TunedLinear:
                module.__class__ = torch.nn.Linear

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo()

    def __repr__(self):
        return f"<gemm_tuned: {len(self.modules)} linear modules>"


def patch_linear(model, where=None):
    """Lets the nn.Linear modules of a model multiply with the kernels; `where(name, module)` says which. Parameters,
    hooks and names stay. Classes derived from nn.Linear and weights of other tensor types are left as they are.
    Compile a model after this call."""
    _must(isinstance(model, torch.nn.Module), lambda: f"the model is a {type(model).__name__}: give an nn.Module")
    gemm_tuned.version()
    modules = {name: module for name, module in model.named_modules()
               if type(module) is torch.nn.Linear and type(module.weight) is torch.nn.Parameter
               and (where is None or where(name, module))}
    _must(modules, lambda: "the model has no nn.Linear to replace: give one that has, or another `where`")
    for module in modules.values():
        module.__class__ = TunedLinear
    return Patch(modules)
