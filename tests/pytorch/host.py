"""Checks the PyTorch operators of an exported Python module without a GPU: the real PyTorch, and a library on the host
in the place of the module's (stand_in.py). Needs PyTorch 2.4 or later.

    host.py FOLDER        FOLDER has the Python modules of an export; no library is needed
"""

import copy
import sys
import time
import traceback
import warnings

sys.path.insert(0, sys.argv[1])
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402

assert "gemm_tuned_torch" not in sys.modules, "import gemm_tuned imports the operators"
import gemm_tuned_torch as operators  # noqa: E402
import stand_in  # noqa: E402

products = operators.products
ops, functional = torch.ops.gemm_tuned, torch.nn.functional
the_library = None
# The epilogue and the compute type of each product.
calls = []


def on_host():
    """Lets the operators multiply tensors of the host."""
    global the_library
    the_library = stand_in.use(gemm_tuned)
    the_library.calls = calls
    products.KERNEL_DEVICES.add("cpu")
    products.DTYPES.add(torch.float64)


def library(*epilogues, computes=()):
    """Sets what the library has, and forgets everything."""
    for known in (calls, gemm_tuned._calls, products._plans, products._said):
        known.clear()
    the_library.epilogues, the_library.computes = set(epilogues), set(computes)


def random(*shape, dtype=torch.float64, grad=False):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def said(call):
    """The result and the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(one.message) for one in caught]


def refused(words, call):
    try:
        call()
    except gemm_tuned.GemmTunedError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"nothing says {words!r}")


ALL = [",".join(filter(None, (addend, act))) for addend in ("", "bias", "residual") for act in ("", *operators.ACTIVATIONS)]


def the_host_is_refused_or_falls_back():
    a, b = random(3, 4), random(4, 5)
    products._said.clear()
    refused("on cpu: move them to an NVIDIA GPU", lambda: ops.mm(a, b))
    refused("on cpu: move them", lambda: ops.linear(a, b.mT))
    result, warned = said(lambda: [ops.mm(a, b, True), ops.mm(a, b, True), ops.bmm(a[None], b[None], True)])
    assert torch.equal(result[0], a @ b) and torch.equal(result[2][0], a @ b)
    assert len(warned) == 1 and "PyTorch multiplies where gemm_tuned cannot" in warned[0], warned
    whole = torch.ones(2, 2, dtype=torch.int8)
    assert said(lambda: ops.mm(whole, whole, True))[0].dtype == torch.int32


def mistakes_are_refused():
    library(*ALL)
    a, b = random(3, 4), random(4, 5)
    for fake in (False, True):
        if fake:
            a, b = a.to("meta"), b.to("meta")
        for words, call in (
            ("have no product", lambda: ops.mm(a, a)),
            ("have no product", lambda: ops.mm(a[None], b[None])),
            ("batches of matrices of one size", lambda: ops.bmm(a, b)),
            ("batches of matrices of one size", lambda: ops.bmm(a.expand(2, 3, 4), b.expand(3, 4, 5))),
            ("give one that expands to (3, 5)", lambda: ops.addmm(a, a, b)),
            ("weight of (out features, in features)", lambda: ops.linear(a, b)),
            ("bias has shape (4,): give one of (5,)", lambda: ops.linear(a, b.mT, b[:, 0])),
            ("`tanh` is no activation: choose one of relu", lambda: ops.linear(a, b.mT, None, "tanh")),
        ):
            refused(words, call)
    a, b = random(3, 4), random(4, 5)
    refused("one dtype, as autocast does", lambda: ops.mm(a, b.float()))
    refused("float32, float16", lambda: ops.mm(a.cfloat(), b.cfloat()))
    refused("give an nn.Module", lambda: gemm_tuned.patch_linear(a))
    refused("no nn.Linear to replace", lambda: gemm_tuned.patch_linear(torch.nn.ReLU()))
    try:
        gemm_tuned.nothing
    except AttributeError as error:
        assert "nothing" in str(error)


def operands_of(name, dtype=torch.float64, grad=False):
    made = lambda *shape: random(*shape, dtype=dtype, grad=grad)  # noqa: E731
    return {
        "mm": [(made(5, 7), made(7, 3)), (made(7, 5).mT, made(3, 7).mT), (made(1, 7), made(7, 1))],
        "bmm": [(made(2, 5, 7), made(2, 7, 3)), (made(5, 2, 7).transpose(0, 1), made(2, 3, 7).mT)],
        "addmm": [(made(3), made(5, 7), made(7, 3)), (made(5, 3), made(5, 7), made(7, 3), 0.5, 2),
                  (made(5, 1), made(5, 7), made(7, 3), 1, 2), (made(5, 3), made(5, 7), made(7, 3)),
                  (made(3, 5).mT, made(5, 7), made(7, 3), -1), (made(3), made(5, 7), made(7, 3), 0)],
        "linear": [(made(5, 7), made(3, 7)), (made(2, 5, 7), made(3, 7), made(3)), (made(7), made(3, 7), made(3)),
                   *((made(2, 5, 7), made(3, 7), made(3), act) for act in operators.ACTIVATIONS)],
    }[name]


def by_torch(name, operands):
    if name == "addmm":
        input, a, b, beta, alpha = (*operands, 1, 1)[:5] if len(operands) == 3 else (*operands, 1)[:5]
        return torch.addmm(input, a, b, beta=beta, alpha=alpha)
    if name == "linear":
        value = functional.linear(*operands[:3])
        return operators.ACTIVATIONS[operands[3]](value) if len(operands) > 3 else value
    return getattr(torch, name)(*operands)


NAMES = ("mm", "bmm", "addmm", "linear")


def results_are_those_of_torch():
    for epilogues in (ALL, [], ["bias"]):
        library(*epilogues)
        for name in NAMES:
            for operands in operands_of(name):
                for _ in range(2):
                    result = getattr(ops, name)(*operands)
                    torch.testing.assert_close(result, by_torch(name, operands))
                    assert result.is_contiguous()


def epilogues_are_fused_where_there_are_kernels():
    x, weight, bias = random(2, 5, 7), random(3, 7), random(3)
    for epilogues, expected in ((ALL, "bias,gelu"), (["bias", "gelu"], "bias"), ([], "")):
        library(*epilogues)
        for _ in range(2):
            ops.linear(x, weight, bias, "gelu")
        assert [call[0] for call in calls] == [expected] * 2, calls
    library(*ALL)
    ops.addmm(bias, x[0], weight.mT), ops.addmm(random(5, 3), x[0], weight.mT), ops.addmm(bias, x[0], weight.mT, beta=2)
    assert [call[0] for call in calls] == ["bias", "residual", ""], calls


def tf32_follows_the_settings_of_torch():
    a, b = random(4, 4, dtype=torch.float32), random(4, 4, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    for precision, computes, expected in (("highest", ["tf32"], None), ("high", ["tf32"], "tf32"), ("high", [], None)):
        torch.set_float32_matmul_precision(precision)
        library(computes=computes)
        ops.mm(a, b)
        assert [call[1] for call in calls] == [expected], (precision, calls)
    torch.set_float32_matmul_precision(before)


def copies_are_made_only_where_they_must():
    library(*ALL)
    padded, wide = random(8, 16)[:5, :7], random(14, 6)
    _, warned = said(lambda: [ops.mm(padded, random(7, 3)), ops.mm(random(7, 9)[:, :5].mT, random(7, 3)),
                              ops.linear(random(2, 3, 16)[..., :7], random(3, 7)), ops.mm(random(5, 7), random(1, 7).mT)])
    assert not warned, warned
    for a, b in ((random(5, 14)[:, ::2], random(7, 3)), (random(5, 1).expand(5, 7), random(7, 3)),
                 (random(5, 7), wide[::2, ::2])):
        products._said.clear()
        result, warned = said(lambda: [ops.mm(a, b), ops.mm(a, b)])
        torch.testing.assert_close(result[1], a @ b)
        assert len(warned) == 1 and "copies operands" in warned[0], warned
    products._said.clear()
    x = random(5, 2, 7).transpose(0, 1)
    result, warned = said(lambda: ops.linear(x, random(3, 7)))
    assert len(warned) == 1 and "first input of shape (2, 5, 7)" in warned[0], warned


def empty_tensors_are_no_products():
    library()
    assert ops.mm(random(0, 4), random(4, 5)).shape == (0, 5)
    assert torch.equal(ops.mm(random(3, 0), random(0, 5)), torch.zeros(3, 5, dtype=torch.float64))
    bias = random(5)
    assert torch.equal(ops.linear(random(2, 3, 0), random(5, 0), bias), bias.expand(2, 3, 5))
    assert ops.linear(random(0, 3, 4), random(5, 4), bias, "relu").shape == (0, 3, 5)
    assert ops.bmm(random(0, 3, 4), random(0, 4, 5)).shape == (0, 3, 5)
    assert not calls


def gradients_are_right():
    library(*ALL)
    for name in NAMES:
        for operands in operands_of(name, grad=True):
            call = getattr(ops, name)
            assert torch.autograd.gradcheck(call, operands), name
            assert torch.autograd.gradgradcheck(call, operands), name
    # Only what is needed is computed: the product, and one product for the weight.
    calls.clear()
    x, weight = random(4, 5), random(3, 5, grad=True)
    ops.linear(x, weight).sum().backward()
    assert len(calls) == 2 and torch.allclose(weight.grad, torch.ones(4, 3, dtype=torch.float64).mT @ x), calls
    # The helper keeps the value before the activation, and the operator computes it again.
    x, weight, bias = random(4, 5, grad=True), random(3, 5, grad=True), random(3, grad=True)
    for call, count in ((gemm_tuned.linear, 3), (ops.linear, 4)):
        calls.clear()
        call(x, weight, bias, "gelu").sum().backward()
        assert len(calls) == count, calls
    with torch.no_grad():
        calls.clear()
        gemm_tuned.linear(x, weight, bias, "gelu")
        assert [call[0] for call in calls] == ["bias,gelu"], calls


def operators_pass_opcheck():
    library(*ALL)
    for name in NAMES:
        for grad in (False, True):
            for operands in operands_of(name, grad=grad):
                torch.library.opcheck(getattr(ops, name).default, operands)


def autocast_casts():
    library(*ALL)
    x, weight, bias = (random(*shape, dtype=torch.float32, grad=True) for shape in ((2, 4, 5), (3, 5), (3,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = [ops.linear(x, weight, bias, "relu"), ops.mm(x[0], weight.mT), ops.bmm(x, x.mT),
                   ops.addmm(bias, x[0], weight.mT)]
        assert ops.mm(random(2, 2), random(2, 2)).dtype == torch.float64
    assert {one.dtype for one in results} == {torch.bfloat16}
    results[0].sum().backward()
    assert x.grad.dtype == weight.grad.dtype == bias.grad.dtype == torch.float32
    with torch.autocast("cpu", enabled=False):
        assert ops.mm(x[0], weight.mT).dtype == torch.float32


class Block(torch.nn.Module):
    """Linears as they are used: in a sequence, without a bias, and with a hook."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8, bias=False)
        self.rest = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8))

    def forward(self, x):
        return self.rest(x + self.down(functional.gelu(self.up(x))))


def models_are_patched_and_restored():
    library(*ALL)
    model, x = Block(), random(2, 3, 8, dtype=torch.float32)
    expected, state = model(x), list(model.state_dict())
    assert not calls
    hooked = []
    model.down.register_forward_hook(lambda *_: hooked.append(1))
    patch = gemm_tuned.patch_linear(model)
    assert list(patch.modules) == ["up", "down", "rest.1"] and repr(patch) == "<gemm_tuned: 3 linear modules>"
    torch.testing.assert_close(model(x), expected)
    assert len(calls) == 3 and hooked and list(model.state_dict()) == state
    assert all(isinstance(one, torch.nn.Linear) for one in patch.modules.values())
    assert type(copy.deepcopy(model).up) is operators.TunedLinear
    patch.undo(), patch.undo()
    assert torch.equal(model(x), expected) and len(calls) == 3
    assert type(model.up) is torch.nn.Linear
    with gemm_tuned.patch_linear(model, where=lambda name, module: name != "up") as patch:
        assert list(patch.modules) == ["down", "rest.1"]
        model(x).sum().backward()
        assert model.up.weight.grad is not None
    assert type(model.down) is torch.nn.Linear
    # Weights of other types are left to their own products, and types without kernels to PyTorch.
    with gemm_tuned.patch_linear(model):
        model.to(torch.complex64)
        result, warned = said(lambda: model.down(torch.ones(2, 16, dtype=torch.complex64)))
        assert len(warned) == 1 and "complex64" in warned[0] and result.dtype == torch.complex64, warned


def models_are_compiled():
    library(*ALL)
    for backend in ("aot_eager", "inductor"):
        model, x = Block(), random(2, 3, 8, dtype=torch.float32)
        expected = model(x)
        expected.sum().backward()
        grads = [one.grad.clone() for one in model.parameters()]
        model.zero_grad()
        with gemm_tuned.patch_linear(model):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            result = compiled(x)
            result.sum().backward()
            torch.testing.assert_close(result, expected)
            for one, grad in zip(model.parameters(), grads):
                torch.testing.assert_close(one.grad, grad)
            calls.clear()
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), expected)
                dynamic = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
                for count in (2, 5, 9):
                    assert dynamic(x[:, :1].expand(2, count, 8)).shape == (2, count, 8)
            assert len(calls) == 12, calls
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert compiled(x).dtype == model(x).dtype
    compiled = torch.compile(gemm_tuned.linear, backend="aot_eager", fullgraph=True)
    assert compiled(x, model.up.weight, model.up.bias, "silu").shape == (2, 3, 16)


TESTS = [the_host_is_refused_or_falls_back, on_host, mistakes_are_refused, results_are_those_of_torch,
         epilogues_are_fused_where_there_are_kernels, tf32_follows_the_settings_of_torch,
         copies_are_made_only_where_they_must, empty_tensors_are_no_products, gradients_are_right,
         operators_pass_opcheck, autocast_casts, models_are_patched_and_restored, models_are_compiled]

def run(tests):
    """Runs tests with a line for each, and exits."""
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}")
    failures = 0
    for test in tests:
        start = time.perf_counter()
        try:
            test()
            words = "right"
        except Exception:
            failures += 1
            words = "wrong\n" + traceback.format_exc()
        print(f"{test.__name__:45} {time.perf_counter() - start:6.1f} s  {words}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    run(TESTS)
