"""The PyTorch operator torch.ops.gemm_tuned.matmul: products with any epilogue and any dtype of the result, which mm, addmm,
bmm and linear do not have.

gemm_tuned_torch.py registers the operator; programs import that. Operands are matrices, or batches of them with three
dimensions; a matrix beside a batch serves all its products.
"""

import torch

if __package__:
    from . import gemm_tuned, gemm_tuned_arrays as arrays, gemm_tuned_products as products
else:
    import gemm_tuned
    import gemm_tuned_arrays as arrays
    import gemm_tuned_products as products

GemmTunedError, NoKernelError = gemm_tuned.GemmTunedError, gemm_tuned.NoKernelError
ACTIVATIONS, plans = products.ACTIVATIONS, products._plans
SCHEMA = ("matmul(Tensor a, Tensor b, Tensor? bias=None, Tensor? row_scale=None, Tensor? col_scale=None, "
          "Tensor? residual=None, Tensor? mul=None, str epilogue=\"\", ScalarType? out_dtype=None, bool fallback=False) -> Tensor")
# The operands of the epilogue in the order of the operator's arguments, and the place of the first one.
OPERANDS, FIRST = ("bias", "row_scale", "col_scale", "residual", "mul"), 2
# Operations with a gradient, which needs neither the product nor an operand.
WITH_GRADIENT = {"bias", "residual"}


def _must(holds, words):
    if not holds:
        raise GemmTunedError(words())


def _words(epilogue):
    return [word.strip() for word in epilogue.split(",")] if epilogue else []


def _check_words(epilogue):
    for word in _words(epilogue):
        _must(word in ACTIVATIONS or word in gemm_tuned.OPERANDS,
              lambda: f"`{word}` is no operation of an epilogue: choose among "
                      f"{', '.join([*gemm_tuned.OPERANDS, *ACTIVATIONS])}")


def result_of(a, b, given, epilogue, out_dtype):
    """The shape and the dtype of a product, whose operands are checked."""
    batches = [one.shape[0] for one in (a, b) if one.dim() == 3]
    _must({a.dim(), b.dim()} <= {2, 3} and a.shape[-1] == b.shape[-2] and (len(batches) < 2 or batches[0] == batches[1]),
          lambda: f"a {tuple(a.shape)} and b {tuple(b.shape)} have no product: give matrices or batches of matrices whose inner "
                  "extents agree")
    batch, m, n = batches[:1], a.shape[-2], b.shape[-1]
    dtype = products.result_dtype(a) if out_dtype is None else out_dtype
    _check_words(epilogue)
    for name, one in gemm_tuned._others(epilogue, given, None, 0).items():
        own = {"row_scale": (m,), "bias": (n,), "col_scale": (n,)}.get(name, (m, n))
        kind = torch.float32 if name.endswith("_scale") else dtype
        _must(one.dtype == kind and tuple(one.shape) in (own, (*batch, *own)),
              lambda: f"{name} is {tuple(one.shape)} of {one.dtype}: give a tensor of shape {own} of {kind}"
                      + (f", or one of {(*batch, *own)}" if batch else ""))
    return (*batch, m, n), dtype


# Products -----------------------------------------------------------------------------------------

def finished(value, given, epilogue, dtype):
    """The epilogue of a product by PyTorch, in float32 for the floating-point types of less bits."""
    if dtype.is_floating_point and value.dtype != torch.float64:
        value = value.float()
    for word in _words(epilogue):
        operand = given.get(gemm_tuned.OPERANDS.get(word))
        if word in ACTIVATIONS:
            value = ACTIVATIONS[word](value)
        elif word == "row-scale":
            value = value * operand[..., :, None]
        elif word in ("col-scale", "mul"):
            value = value * (operand if word == "mul" else operand[..., None, :])
        else:
            value = value + (operand if word == "residual" else operand[..., None, :])
    return value.to(dtype)


class _Plan:
    """How a product is computed: its call, and whether PyTorch computes the epilogue of it."""

    __slots__ = ("launch", "shape", "dtype", "is_fused")

    def __init__(self, call, dtype, is_fused):
        self.launch, self.shape, self.dtype, self.is_fused = call.launch, call.shape, dtype, is_fused

    def run(self, a, b, given, epilogue, dtype):
        out = a.new_empty(*self.shape, dtype=self.dtype)
        if self.is_fused:
            self.launch(a.data_ptr(), b.data_ptr(), out.data_ptr(), **{name: one.data_ptr() for name, one in given.items()})
            return out
        self.launch(a.data_ptr(), b.data_ptr(), out.data_ptr())
        return finished(out, given, epilogue, dtype)


def _key(a, b, given, epilogue, dtype):
    """All that decides how a product is computed, and what gemm_tuned.prepared takes of it."""
    described = arrays.adapter_of("torch").described
    low = a.data_ptr() | b.data_ptr() | gemm_tuned.ALIGNMENT
    others = tuple([(name, described(one)) for name, one in given.items()])
    operands = described(a), described(b), low & -low, others
    return "matmul", operands, epilogue, dtype, a.dtype is torch.float32 and products.allows_tf32()


def _first_plan(key, a, b, given, epilogue, dtype):
    """The product in the first way that the library has kernels for, which is the plan of that key from then on: with the
    epilogue, or without."""
    _, (of_a, of_b, low, others), _, _, is_tf32 = key
    plain = torch.int32 if a.dtype == torch.int8 else dtype
    ways = [(epilogue, others, dtype)] + ([("", (), plain)] if epilogue or plain != dtype else [])
    last = None
    for compute in ("tf32", None) if is_tf32 else (None,):
        for words, own, kind in ways:
            try:
                # None for the usual dtype: a call is then that of gemm_tuned.matmul.
                options = None if kind == products.result_dtype(a) else kind, compute, words
                call = gemm_tuned.prepared(arrays.adapter_of("torch"), (of_a, of_b, None, low, options, own))
                plan = _Plan(call, kind, words == epilogue and kind == dtype)
                value = plan.run(a, b, given, epilogue, dtype)
            except NoKernelError as error:
                last = last or error
                continue
            if len(plans) >= gemm_tuned.MAX_CALLS:
                plans.clear()
            plans[key] = plan
            return value
    raise last


def _as_kernels_read(a, b, given, shape):
    """The operands as kernels read them: copies of those that lie otherwise."""
    extents = {"bias": shape[-1:], "col_scale": shape[-1:], "row_scale": shape[-2:-1]}
    found = {}
    for name, one in given.items():
        whole = (*shape[:-2], *extents.get(name, shape[-2:]))
        if not one.is_contiguous():
            products.say_copied(name, one)
        lies = one.is_contiguous() and tuple(one.shape) == whole
        found[name] = one if lies else one.expand(whole).contiguous()
    return products._readable(a, "a"), products._readable(b, "b"), found


def _unfit(a, b, given):
    """Why no kernel can multiply these; None if one may."""
    for name, one in given.items():
        if one.device != a.device:
            return f"the operands are on {a.device} and {one.device}: move them to one GPU"
    return products._unfit(a, b, None)


def _by_torch(a, b, given, epilogue, dtype):
    if a.dtype == torch.int8:
        value = torch.matmul(a.int(), b.int())
    elif dtype == a.dtype or a.dtype == torch.float64:
        value = torch.matmul(a, b)
    else:
        value = torch.matmul(a.float(), b.float())
    return finished(value, given, epilogue, dtype)


def _planned(a, b, given, epilogue, dtype):
    """The product by the plan for such tensors; None if there is none."""
    try:
        plan = plans.get(_key(a, b, given, epilogue, dtype))
    except RuntimeError:
        # Tensors without strides or addresses, such as sparse ones, are for PyTorch to refuse.
        return None
    try:
        return None if plan is None else plan.run(a, b, given, epilogue, dtype)
    except NoKernelError:
        # Memory is missing for its workspace: another way may need less.
        return None


def matmul(a, b, bias=None, row_scale=None, col_scale=None, residual=None, mul=None, epilogue="", out_dtype=None,
           fallback=False):
    """epilogue(a @ b), as `gemm_tuned.matmul` has it."""
    every = {"bias": bias, "row_scale": row_scale, "col_scale": col_scale, "residual": residual, "mul": mul}
    given = {name: one for name, one in every.items() if one is not None}
    dtype = products.result_dtype(a) if out_dtype is None else out_dtype
    value = _planned(a, b, given, epilogue, dtype)
    if value is not None:
        return value
    shape, _ = result_of(a, b, every, epilogue, out_dtype)
    why = _unfit(a, b, given)
    if why is None and (a.numel() == 0 or b.numel() == 0):
        return finished(a.new_zeros(shape, dtype=products.result_dtype(a)), given, epilogue, dtype)
    kind = why
    if why is None:
        a, b, given = _as_kernels_read(a, b, given, shape)
        try:
            value = _planned(a, b, given, epilogue, dtype)
            if value is None:
                value = _first_plan(_key(a, b, given, epilogue, dtype), a, b, given, epilogue, dtype)
            return value
        except NoKernelError as error:
            if not fallback:
                raise
            kind, why = a.dtype, str(error)
    elif not fallback:
        raise GemmTunedError(why)
    products._say_once(kind, f"PyTorch multiplies where gemm_tuned cannot, first: {why}")
    return _by_torch(a, b, given, epilogue, dtype)


def fake(a, b, bias=None, row_scale=None, col_scale=None, residual=None, mul=None, epilogue="", out_dtype=None,
         fallback=False):
    given = {"bias": bias, "row_scale": row_scale, "col_scale": col_scale, "residual": residual, "mul": mul}
    shape, dtype = result_of(a, b, given, epilogue, out_dtype)
    return a.new_empty(shape, dtype=dtype)


# Gradients and autocast ---------------------------------------------------------------------------

def setup(ctx, inputs, output):
    a, b, bias, _, _, residual, _, ctx.epilogue, *_ = inputs
    ctx.dtype, ctx.dimensions = a.dtype, [0 if one is None else one.dim() for one in (bias, residual)]
    of_a, of_b = ctx.needs_input_grad[:2]
    ctx.save_for_backward(a if of_b else None, b if of_a else None)
    ctx.is_matrix = a.dim() == 2, b.dim() == 2


def backward(ctx, grad):
    _must(WITH_GRADIENT.issuperset(_words(ctx.epilogue)),
          lambda: f"torch.ops.gemm_tuned.matmul has no gradient for the epilogue `{ctx.epilogue}`: call it without the operations "
                  f"besides {' and '.join(sorted(WITH_GRADIENT))}, and let PyTorch compute those; or detach its operands")
    a, b = ctx.saved_tensors
    needs = [*ctx.needs_input_grad, *[False] * (FIRST + len(OPERANDS) - len(ctx.needs_input_grad))]

    def summed(value, is_one):
        """The sum over a batch for what served all its products."""
        return value.sum(0) if is_one and value.dim() == grad.dim() == 3 else value

    multiply, inner = torch.ops.gemm_tuned.matmul.default, grad.to(ctx.dtype)
    of_a = summed(multiply(inner, b.mT, fallback=True), ctx.is_matrix[0]) if needs[0] else None
    of_b = summed(multiply(a.mT, inner, fallback=True), ctx.is_matrix[1]) if needs[1] else None
    of_bias, of_residual = None, None
    if needs[FIRST]:
        of_bias = grad.sum(-2)
        of_bias = of_bias.sum(0) if of_bias.dim() > ctx.dimensions[0] else of_bias
    if needs[FIRST + OPERANDS.index("residual")]:
        of_residual = summed(grad, ctx.dimensions[1] == 2)
    return of_a, of_b, of_bias, None, None, of_residual, None, None, None, None


def autocast(arguments, cast, dtype):
    """The arguments under autocast: a and b in its dtype, operands in that of the result, and scales as they are."""
    a, b, *others = arguments
    is_cast = a.is_floating_point()
    a, b = cast(a, dtype), cast(b, dtype)
    if is_cast:
        out = others[6] if len(others) > 6 and others[6] is not None else a.dtype
        kept = {OPERANDS.index("row_scale"), OPERANDS.index("col_scale")}
        others = [one if place in kept or place >= len(OPERANDS) else cast(one, out) for place, one in enumerate(others)]
    return a, b, *others
