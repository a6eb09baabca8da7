"""Checks the operator torch.ops.gemm_tuned.matmul of gemm_tuned_matmul.py without a GPU, as host.py does the others.

    matmul.py FOLDER        FOLDER has the Python modules of an export; no library is needed
"""

import torch
from host import calls, functional, gemm_tuned, library, on_host, operators, ops, products, random, refused, run, said


def scales_of(a, b):
    """Scales so small that float16 has the results."""
    rows, columns = (random(extent, dtype=torch.float32) / 64 for extent in (a.shape[-2], b.shape[-1]))
    return {"row_scale": rows, "col_scale": columns}


def exact(a, b, epilogue, **given):
    """What the operator matmul computes, in float64."""
    value = torch.matmul(a.double(), b.double())
    for word in filter(None, epilogue.split(",")):
        one = given.get(word.replace("-", "_"))
        if word in operators.ACTIVATIONS:
            value = operators.ACTIVATIONS[word](value)
        elif word == "row-scale":
            value = value * one[..., :, None]
        elif word in ("residual", "mul"):
            value = value + one if word == "residual" else value * one
        else:
            value = value + one[..., None, :] if word == "bias" else value * one[..., None, :]
    return value


def products_of_matmul():
    """Operands, epilogues and dtypes of results, as the operator matmul takes them."""
    made = lambda dtype, *shape: random(*shape, dtype=dtype)  # noqa: E731
    whole = lambda *shape: torch.randint(-128, 128, shape, dtype=torch.int8)  # noqa: E731
    for dtype in (torch.float64, torch.bfloat16):
        a, b = made(dtype, 5, 7), made(dtype, 7, 3)
        yield a, b, "", None, {}
        yield a, b, "silu,mul", None, {"mul": made(dtype, 5, 3)}
        yield a, b, "mul,bias,residual", None, {"mul": made(dtype, 3, 5).mT, "bias": made(dtype, 3), "residual": made(dtype, 5, 3)}
        for left, right in ((made(dtype, 2, 5, 7), b), (a, made(dtype, 2, 7, 3)), (made(dtype, 2, 7, 5).mT, made(dtype, 2, 7, 3))):
            yield left, right, "bias,gelu", None, {"bias": made(dtype, 3)}
            yield left, right, "residual,relu", None, {"residual": made(dtype, 2, 5, 3)}
            yield left, right, "mul", None, {"mul": made(dtype, 5, 3)}
    a, b = made(torch.float16, 5, 7), made(torch.float16, 3, 7).mT
    yield a, b, "", torch.float32, {}
    yield a, b, "bias,gelu-tanh", torch.float32, {"bias": made(torch.float32, 3)}
    for a, b in ((whole(5, 7), whole(7, 3)), (whole(5, 14)[:, ::2], whole(2, 7, 3))):
        yield a, b, "", None, {}
        yield a, b, "row-scale,col-scale", torch.float16, scales_of(a, b)
        given = scales_of(a, b) | {"bias": made(torch.bfloat16, 3)}
        yield a, b, "row-scale,col-scale,bias,silu", torch.bfloat16, given


def matmul_has_all_epilogues_and_dtypes():
    for has_kernels in (True, False):
        for a, b, epilogue, out, given in products_of_matmul():
            library(*([epilogue] if has_kernels else []))
            right = exact(a, b, epilogue, **given)
            results, warned = said(lambda: [ops.matmul(a, b, **given, epilogue=epilogue, out_dtype=out) for _ in range(3)])
            for result in results:
                usual = torch.int32 if a.dtype == torch.int8 else a.dtype
                assert result.dtype == (out or usual) and result.is_contiguous() and result.shape == right.shape
                torch.testing.assert_close(result.double(), right, rtol=3e-2, atol=3e-2 * float(right.abs().max()))
                if result.dtype in (torch.float64, torch.int32):
                    torch.testing.assert_close(result.double(), right)
            # All by one product, which has the epilogue where there are kernels with it.
            fused = [epilogue if has_kernels else ""] * 3
            assert [call[0] for call in calls] == fused, (calls, epilogue, out)
            assert all("copies operands" in words for words in warned), warned
            torch.library.opcheck(ops.matmul.default, (a, b), given | {"epilogue": epilogue, "out_dtype": out})


def matmul_refuses_mistakes():
    library()
    a, b, bias = random(5, 7), random(7, 3), random(3)
    for fake in (False, True):
        if fake:
            a, b, bias = (one.to("meta") for one in (a, b, bias))
        for words, call in (
            ("have no product", lambda: ops.matmul(a, a)),
            ("have no product", lambda: ops.matmul(a.expand(2, 5, 7), b.expand(3, 7, 3))),
            ("have no product", lambda: ops.matmul(a[0], b)),
            ("needs `bias`", lambda: ops.matmul(a, b, epilogue="bias")),
            ("`bias` is no operand of the epilogue `relu`", lambda: ops.matmul(a, b, bias, epilogue="relu")),
            ("`tanh` is no operation", lambda: ops.matmul(a, b, epilogue="tanh")),
            ("bias is (5,) of torch.float64: give a tensor of shape (3,)", lambda: ops.matmul(a, b, a[:, 0], epilogue="bias")),
            ("of torch.float32: give a tensor of shape (3,) of torch.float64", lambda: ops.matmul(
                a, b, bias.float(), epilogue="bias")),
            ("row_scale is (3,) of torch.float64: give a tensor of shape (5,) of torch.float32", lambda: ops.matmul(
                a, b, row_scale=bias, epilogue="row-scale")),
        ):
            refused(words, call)
    a, b, bias = random(5, 7), random(7, 3), random(3)
    refused("one dtype, as autocast does", lambda: ops.matmul(a, b.float()))
    # Without a kernel, and with the fallback.
    products.DTYPES.discard(torch.float64)
    refused("float32, float16", lambda: ops.matmul(a, b))
    value, warned = said(lambda: [ops.matmul(a, b, bias, epilogue="bias,relu", fallback=True) for _ in range(2)])
    products.DTYPES.add(torch.float64)
    assert torch.equal(value[1], torch.relu(a @ b + bias)) and len(warned) == 1, warned
    assert ops.matmul(random(0, 4), random(4, 5)).shape == (0, 5) and not calls
    assert torch.equal(ops.matmul(random(2, 5, 0), random(0, 3), bias, epilogue="bias"), bias.expand(2, 5, 3))


def gradients_of_matmul_are_right_or_refused():
    library("bias", "residual", "bias,residual")
    of = lambda *shape: random(*shape, grad=True)  # noqa: E731
    for a, b in ((of(5, 7), of(7, 3)), (of(2, 5, 7), of(7, 3)), (of(5, 7), of(2, 7, 3)), (of(2, 7, 5).mT, of(2, 7, 3))):
        shape = torch.matmul(a, b).shape
        for call, operands in (
            (ops.matmul, (a, b)),
            (lambda a, b, bias: ops.matmul(a, b, bias, epilogue="bias"), (a, b, of(3))),
            (lambda a, b, residual: ops.matmul(a, b, residual=residual, epilogue="residual"), (a, b, of(*shape))),
            (lambda a, b, bias, residual: ops.matmul(a, b, bias, residual=residual, epilogue="bias,residual"),
             (a, b, of(3), of(5, 3))),
        ):
            assert torch.autograd.gradcheck(call, operands) and torch.autograd.gradgradcheck(call, operands)
    a, b = of(5, 7), random(7, 3)
    ops.matmul(a.half(), b.half(), out_dtype=torch.float32).sum().backward()
    torch.testing.assert_close(a.grad, b.sum(1).expand(5, 7), rtol=1e-2, atol=1e-2)
    value = ops.matmul(a, b, mul=random(5, 3), epilogue="silu,mul")
    refused("no gradient for the epilogue `silu,mul`: call it without the operations besides bias and residual",
            lambda: value.sum().backward())


def matmul_is_cast_and_compiled():
    library("bias,gelu", "row-scale,col-scale,bias")
    a, b, bias = (random(*shape, dtype=torch.float32) for shape in ((2, 4, 5), (5, 3), (3,)))
    whole = torch.ones(4, 8, dtype=torch.int8), torch.ones(8, 3, dtype=torch.int8)
    given = scales_of(*whole) | {"bias": bias}
    by_scales = lambda: ops.matmul(*whole, **given, epilogue="row-scale,col-scale,bias", out_dtype=torch.float32)  # noqa: E731
    expected = by_scales()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.matmul(a, b, bias, epilogue="bias,gelu").dtype == torch.bfloat16
        assert ops.matmul(a, b, bias, epilogue="bias,gelu", out_dtype=torch.float32).dtype == torch.float32
        assert torch.equal(by_scales(), expected)
    calls.clear()
    for backend in ("aot_eager", "inductor"):
        torch._dynamo.reset()
        call = torch.compile(lambda a, b, bias: [ops.matmul(one, b, bias, epilogue="bias,gelu") for one in a],
                             backend=backend, fullgraph=True)
        for value, one in zip(call(a, b, bias), a):
            torch.testing.assert_close(value, functional.gelu(one @ b + bias))
    assert len(calls) == 4, calls


TESTS = [on_host, matmul_has_all_epilogues_and_dtypes, matmul_refuses_mistakes, gradients_of_matmul_are_right_or_refused,
         matmul_is_cast_and_compiled]

if __name__ == "__main__":
    run(TESTS)
