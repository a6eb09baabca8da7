"""Checks the functions mm, addmm, bmm and linear of gemm_tuned_torch.py, and patched modules, without a GPU: they give
what the operators give, without PyTorch's dispatcher where nothing sees operators, and by the operators elsewhere.

    functions.py FOLDER        as host.py
"""

import threading

from host import (ALL, NAMES, Block, by_torch, calls, functional, gemm_tuned, library, on_host, operands_of, operators,
                  ops, products, random, refused, run, said, torch)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

# Names of operators that functions have called.
called = []


class Recorded:
    """An operator that is recorded where a function calls it."""

    def __init__(self, name):
        self.name, self.operator = name, getattr(ops, name)

    def default(self, *arguments):
        called.append(self.name)
        return self.operator.default(*arguments)


class Operators:
    """In the place of torch.ops.gemm_tuned in the module."""
    mm, bmm, addmm, linear = (Recorded(name) for name in ("mm", "bmm", "addmm", "linear"))


def known(call):
    """The value of a call that was made before, and the operators that the second one called."""
    call()
    called.clear()
    return call(), list(called)


def function_of(name):
    """A function that takes what the operator takes."""
    def addmm(input, a, b, beta=1, alpha=1, fallback=False):
        return operators.addmm(input, a, b, beta=beta, alpha=alpha, fallback=fallback)
    return addmm if name == "addmm" else getattr(operators, name)


def setup():
    on_host()
    operators.OPERATORS = Operators


def values_are_those_of_operators():
    for epilogues in (ALL, [], ["bias"]):
        library(*epilogues)
        for name in NAMES:
            for operands in operands_of(name):
                value, names = known(lambda: function_of(name)(*operands))
                assert names == [] and value.is_contiguous()
                assert torch.equal(value, getattr(ops, name)(*operands))
                torch.testing.assert_close(value, by_torch(name, operands))
    a, b, bias = (torch.randint(-9, 9, shape, dtype=torch.int8) for shape in ((5, 7), (7, 3), (3,)))
    value, names = known(lambda: operators.addmm(bias.int(), a, b, alpha=2))
    assert value.dtype == torch.int32 and torch.equal(value, 2 * (a.int() @ b.int()) + bias) and names == []
    # A bias of a view that is not aligned as its storage is, and addresses of all alignments.
    whole = random(80, dtype=torch.float32)
    for start in range(5):
        a, bias = whole[start:start + 35].view(5, 7), whole[start:start + 3]
        b = whole[40 - start:61 - start].view(7, 3)
        value, names = known(lambda: operators.addmm(bias, a, b))
        torch.testing.assert_close(value, torch.addmm(bias, a, b))
        assert names == []


def errors_are_those_of_operators():
    library(*ALL)
    a, b, bias = random(3, 4), random(4, 5), random(5)
    operators.mm(a, b), operators.linear(a, b.mT, bias), operators.addmm(bias, a, b)
    for call in (
        lambda of: of.mm(a, a), lambda of: of.mm(a, b.float()),
        lambda of: of.mm(a.cfloat(), b.cfloat()), lambda of: of.mm(a[None], b[None]), lambda of: of.bmm(a, b),
        lambda of: of.mm(a.to_sparse(), b), lambda of: of.mm(a, b.tolist()), lambda of: of.mm(None, b),
        lambda of: of.addmm(a, a, b), lambda of: of.linear(a, b), lambda of: of.linear(a, b.mT, b[:, 0]),
        lambda of: of.linear(a, b.mT, bias.float()), lambda of: of.linear(a, b.mT, None, "tanh"),
        lambda of: of.addmm(torch.ones(5, dtype=torch.int32), a.to(torch.int8), b.to(torch.int8), alpha=0.5),
    ):
        errors = []
        for of in (ops, operators, operators):
            try:
                call(of)
            except Exception as error:
                errors.append((type(error), str(error)))
        assert len(errors) == 3 and errors[0] == errors[1] == errors[2], errors
    meta = operators.mm(a.to("meta"), b.to("meta"))
    assert meta.device.type == "meta" and meta.shape == (3, 5)
    refused("no activation", lambda: gemm_tuned.linear(a, b.mT, bias, "tanh"))
    # Without a kernel, and with the fallback.
    library(computes=())
    products.DTYPES.discard(torch.float64)
    refused("float32, float16", lambda: operators.mm(a, b))
    value, warned = said(lambda: [operators.mm(a, b, fallback=True) for _ in range(2)])
    products.DTYPES.add(torch.float64)
    assert torch.equal(value[1], a @ b) and len(warned) == 1, warned


def what_decides_makes_another_plan():
    library(*ALL, computes=["tf32"])
    a, b, bias = random(4, 4, dtype=torch.float32), random(4, 4, dtype=torch.float32), random(4, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    for precision, expected in (("highest", None), ("high", "tf32"), ("highest", None)):
        torch.set_float32_matmul_precision(precision)
        operators.mm(a, b), operators.mm(a, b)
        assert [call[1] for call in calls[-2:]] == [expected] * 2, (precision, calls)
    torch.set_float32_matmul_precision(before)
    for beta, alpha in ((1, 1), (1, 3), (0.5, 1), (0.25, 3), (0, 1), (1, 0), (0, 0)):
        for addend in (bias, random(4, 4, dtype=torch.float32), random(4, 4, dtype=torch.float32).mT, bias[:, None]):
            for _ in range(2):
                value = operators.addmm(addend, a, b, beta=beta, alpha=alpha)
                torch.testing.assert_close(value, torch.addmm(addend, a, b, beta=beta, alpha=alpha))
    # With an alpha of 0 nothing is multiplied, also where a plan is there.
    bad = torch.full_like(a, float("nan"))
    assert torch.equal(operators.addmm(bias, bad, b, alpha=0), bias.expand(4, 4))
    # A setting of strides without another shape, and a new storage of a parameter.
    weight = torch.nn.Parameter(random(4, 4, dtype=torch.float32), requires_grad=False)
    wide = random(4, 8, dtype=torch.float32)
    for data in (wide[:, :4].contiguous(), wide[:, 4:].contiguous().mT, wide[:, :4]):
        weight.data = data
        torch.testing.assert_close(operators.linear(a, weight), functional.linear(a, data))
    library()
    limit, gemm_tuned.MAX_CALLS = gemm_tuned.MAX_CALLS, 3
    for extent in range(1, 9):
        operators.mm(a[:extent], b)
        assert 1 <= len(products._plans) <= 3 and 1 <= len(gemm_tuned._calls) <= 3
    gemm_tuned.MAX_CALLS = limit


def gradients_are_right():
    library(*ALL)
    for name in NAMES:
        for operands in operands_of(name, grad=True):
            call = function_of(name)
            called.clear()
            assert torch.autograd.gradcheck(call, operands), name
            assert torch.autograd.gradgradcheck(call, operands), name
    # Neither the product nor those of its gradients go through the dispatcher.
    x, weight, bias = random(2, 4, 5), random(3, 5, grad=True), random(3, grad=True)

    def step():
        weight.grad = bias.grad = None
        operators.linear(x, weight, bias, "relu").backward(torch.ones(2, 4, 3, dtype=torch.float64))
        return weight.grad, bias.grad

    (of_weight, of_bias), names = known(step)
    own = [one.detach().clone().requires_grad_() for one in (weight, bias)]
    functional.relu(functional.linear(x, *own)).sum().backward()
    torch.testing.assert_close((of_weight, of_bias), tuple(one.grad for one in own))
    assert names == [], names
    calls.clear()
    step()
    assert len(calls) == 2, calls
    with torch.no_grad():
        assert not operators.linear(x, weight, bias).requires_grad
    with torch.inference_mode():
        assert known(lambda: operators.linear(x, weight, bias))[1] == []


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.names.append(str(function))
        return function(*arguments, **named or {})


class SeenFunctions(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, arguments=(), named=None):
        self.names.append(str(function))
        return function(*arguments, **named or {})


class Own(torch.Tensor):
    """A class with code of its own for operators."""
    names = []

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        cls.names.append(str(function))
        return super().__torch_function__(function, types, arguments, named or {})


def whoever_sees_operators_sees_them():
    library(*ALL)
    a, b, bias = (random(*shape, dtype=torch.float32) for shape in ((4, 4), (4, 4), (4,)))
    call = lambda x: operators.linear(x, b, bias, "relu")  # noqa: E731
    expected, names = known(lambda: call(a))
    assert names == []

    def by_operator(run):
        called.clear()
        value = run()
        assert called, "the function left the operator out"
        return value

    for mode in (Seen(), SeenFunctions()):
        with mode:
            assert torch.equal(by_operator(lambda: call(a)), expected)
        assert any("gemm_tuned.linear" in name for name in mode.names), mode.names
    by_operator(lambda: call(a.as_subclass(Own)))
    assert any("gemm_tuned.linear" in name for name in Own.names), Own.names
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert by_operator(lambda: call(a)).dtype == torch.bfloat16
    with torch.profiler.profile() as profile:
        by_operator(lambda: call(a))
    assert any(event.name == "gemm_tuned::linear" for event in profile.events())
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert isinstance(by_operator(lambda: call(a)), torch._subclasses.FakeTensor)
        assert isinstance(by_operator(lambda: call(mode.from_tensor(a))), torch._subclasses.FakeTensor)
    for traced in (lambda: make_fx(call)(a),
                   lambda: make_fx(lambda *three: operators.linear(*three), tracing_mode="symbolic")(a, b, bias),
                   lambda: torch.fx.symbolic_trace(operators.TunedLinear(4, 4)),
                   lambda: torch.export.export(operators.TunedLinear(4, 4), (a,), strict=False)):
        graph = traced().graph
        assert any("gemm_tuned" in str(node.target) or "linear" in str(node.target) for node in graph.nodes
                   if node.op == "call_function"), graph
    traced = torch.jit.trace(call, (a,))
    assert "gemm_tuned::linear" in str(traced.graph)
    torch.testing.assert_close(traced(2 * a), call(2 * a))
    for compiled in (operators.mm, operators.bmm, lambda *two: operators.addmm(bias, *two), operators.linear):
        torch._dynamo.reset()
        operands = (a[None], b[None]) if compiled is operators.bmm else (a, b)
        value = torch.compile(compiled, backend="aot_eager", fullgraph=True)(*operands)
        torch.testing.assert_close(value, compiled(*operands))
    # The operators say what PyTorch does there: it repeats them for vmap, and loses tangents.
    with torch.autograd.forward_ad.dual_level():
        by_operator(lambda: call(torch.autograd.forward_ad.make_dual(a, torch.ones_like(a))))
    many = random(3, 4, 4, dtype=torch.float32)
    torch.testing.assert_close(by_operator(lambda: torch.vmap(lambda x: operators.mm(x, b))(many)), many @ b)
    called.clear()
    try:
        torch.func.grad(lambda x: operators.mm(x, b).sum())(a)
    except RuntimeError as error:
        assert "functorch" in str(error), error
    assert called
    # A view whose negative lies in memory.
    negative = torch._neg_view(a)
    torch.testing.assert_close(by_operator(lambda: operators.mm(negative, b)), negative @ b)
    assert torch.equal(known(lambda: call(a))[0], expected) and called == []


def modules_find_their_weights():
    library(*ALL)
    x = random(2, 3, 8, dtype=torch.float32)
    model = Block()
    expected = model(x)
    hooked = []
    with gemm_tuned.patch_linear(model):
        for hook in (model.up.register_forward_hook(lambda *_: hooked.append("after")),
                     model.up.register_forward_pre_hook(lambda *_: hooked.append("before"))):
            assert hook
        with torch.no_grad():
            value, names = known(lambda: model(x))
        torch.testing.assert_close(value, expected)
        assert names == [] and hooked == ["before", "after"] * 2, (names, hooked)
        # Parameters that others compute: by parametrizations, by hooks, and for one call.
        torch.nn.utils.parametrize.register_parametrization(model.up, "weight", torch.nn.Tanh())
        torch.nn.utils.parametrize.register_parametrization(model.rest[1], "bias", torch.nn.Tanh())
        torch.nn.utils.weight_norm(model.down)
        for layer, width in ((model.up, 8), (model.down, 16), (model.rest[1], 8)):
            operand = random(5, width, dtype=torch.float32)
            for _ in range(2):
                torch.testing.assert_close(layer(operand), functional.linear(operand, layer.weight, layer.bias))
        layer = operators.TunedLinear(8, 4)
        others = {name: random(*one.shape, dtype=torch.float32) for name, one in layer.named_parameters()}
        for _ in range(2):
            torch.testing.assert_close(torch.func.functional_call(layer, others, x),
                                       functional.linear(x, others["weight"], others["bias"]))
        layer.to(torch.bfloat16)
        assert layer(x.bfloat16()).dtype == torch.bfloat16


def threads_multiply_at_the_same_time():
    library()
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for count in range(60):
            a, b = (torch.randn(8, 8, generator=generator)[:1 + count % 8] for _ in range(2))
            if not torch.allclose(operators.mm(a, b.mT), a @ b.mT, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


TESTS = [setup, values_are_those_of_operators, errors_are_those_of_operators, what_decides_makes_another_plan,
         gradients_are_right, whoever_sees_operators_sees_them, modules_find_their_weights,
         threads_multiply_at_the_same_time]

if __name__ == "__main__":
    run(TESTS)
