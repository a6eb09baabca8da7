"""Calls the operators of an exported Python module, with stub_driver.c in the place of the driver and stubs/torch.py in
that of PyTorch: what is launched, and what is left to PyTorch. tests/pytorch does the same with the real PyTorch.

    operators.py FOLDER        with LD_LIBRARY_PATH=FOLDER/stub
"""

import ctypes
import sys
import warnings

sys.path[0] = sys.argv[1]
import gemm_tuned  # noqa: E402: the folder is an argument

stub = ctypes.CDLL("libcuda.so.1")
stub.stub_recorded.restype = ctypes.c_char_p

# Without PyTorch, and with one that is too old.
for found, expected in ((None, "needs PyTorch, which is not installed"), ("2.3", "need PyTorch 2.4 or later, and this is")):
    if found is None:
        sys.modules["torch"] = None
    else:
        del sys.modules["torch"]
        sys.path.insert(0, __file__.rpartition("/")[0] + "/stubs")
        import torch  # noqa: E402: the one of stubs/
        register = torch.library.__dict__.pop("register_autograd")
    try:
        gemm_tuned.patch_linear
    except (gemm_tuned.GemmTunedError, ImportError) as error:
        assert expected in str(error), error
    else:
        raise AssertionError(f"nothing says {expected!r}")
torch.library.register_autograd = register
import gemm_tuned_torch as operators  # noqa: E402

A, B, C = 1 << 40, 1 << 41, 1 << 42


def matrix(address, height, width, dtype=torch.bfloat16, layout="n", kind=torch.Tensor):
    return kind(address, (height, width), (width, 1) if layout == "n" else (1, height), dtype)


def launched(call):
    """What a call launches, the names that PyTorch computes, and the warnings."""
    stub.stub_begin()
    torch.memory(1 << 44, 1 << 46)
    torch.computed.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return stub.stub_recorded().decode(), list(torch.computed), [str(one.message) for one in caught]


def refused(words, call):
    try:
        call()
    except gemm_tuned.GemmTunedError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"nothing says {words!r}")


def x(dtype, layout="n", address=A):
    return matrix(address, 256, 128, dtype, layout)


def weight(dtype, layout="n"):
    return matrix(B, 192, 128, dtype, layout, torch.Parameter)


def bias(dtype):
    return torch.Tensor(C, (192,), (1,), dtype)


ops, bf16, i8, i32 = torch.ops.gemm_tuned, torch.bfloat16, torch.int8, torch.int32
# One launch where the library has kernels with the epilogue, by the module's own call.
fused = launched(lambda: gemm_tuned.matmul(x(i8), weight(i8).mT, epilogue="bias,relu", bias=bias(i32)))
for _ in range(2):
    assert fused[0] and launched(lambda: ops.linear(x(i8), weight(i8), bias(i32), "relu")) == fused
# Without: the bias is what a product is added to, and PyTorch computes the activation.
plain = launched(lambda: gemm_tuned.matmul(x(bf16), weight(bf16).mT, torch.Tensor(1 << 43, (256, 192), (192, 1), bf16), beta=1))
for _ in range(2):
    assert plain[0] and launched(lambda: ops.linear(x(bf16), weight(bf16), bias(bf16))) == plain
    assert launched(lambda: ops.linear(x(bf16), weight(bf16), bias(bf16), "gelu")) == (plain[0], ["gelu"], [])
    assert launched(lambda: ops.addmm(bias(bf16), x(bf16), weight(bf16).mT)) == plain
product = launched(lambda: gemm_tuned.matmul(x(bf16), weight(bf16).mT))
assert launched(lambda: ops.mm(x(bf16), weight(bf16).mT)) == product != plain
assert launched(lambda: ops.bmm(torch.Tensor(A, (2, 8, 16), (128, 16, 1), bf16), torch.Tensor(B, (2, 16, 8), (128, 8, 1), bf16)))[0]
# The operator with all epilogues and dtypes.
for _ in range(2):
    assert launched(lambda: ops.matmul(x(i8), weight(i8).mT, bias(i32), epilogue="bias,relu")) == fused
    assert launched(lambda: ops.matmul(x(bf16), weight(bf16).mT)) == product
# No kernel at all.
torch.backends.cuda.matmul.allow_tf32 = True
refused("the library has no kernel for 256x192x128 x 1 i32 nt", lambda: ops.mm(x(i32), weight(i32).mT))
text, computed, warned = launched(lambda: [ops.linear(x(i32), weight(i32), bias(i32), "relu", True) for _ in range(2)])
assert (text, computed) == ("", ["addmm", "relu"] * 2) and len(warned) == 1 and "no kernel" in warned[0], (text, warned)
refused("on -1: move them to an NVIDIA GPU", lambda: ops.mm(*(torch.Tensor(A, (8, 8), (8, 1), bf16, -1),) * 2))
# tf32 where PyTorch allows it and there are such kernels, and else f32.
assert fused and operators.products.allows_tf32()
refused("no kernel for 256x192x128 x 1 f32 nt", lambda: ops.mm(x(torch.float32), weight(torch.float32).mT))
# A copy of what no kernel reads, and a word about it.
strided = torch.Tensor(A, (256, 128), (256, 2), bf16)
text, _, warned = launched(lambda: [ops.mm(strided, weight(bf16).mT), ops.mm(strided, weight(bf16).mT)])
assert text.startswith(launched(lambda: ops.mm(x(bf16, address=1 << 43), weight(bf16).mT))[0]) and len(warned) == 1, warned

# Models.
class Model(torch.Module):
    def __init__(self):
        self.one, self.other = torch.Linear(weight(bf16), bias(bf16)), torch.Linear(weight(bf16))


model = Model()
with gemm_tuned.patch_linear(model, where=lambda name, _: name == "one") as patch:
    assert list(patch.modules) == ["one"] and launched(lambda: model.one(x(bf16))) == plain
    assert launched(lambda: model.other(x(bf16)))[:2] == ("", ["linear"])
assert launched(lambda: model.one(x(bf16)))[:2] == ("", ["linear"])
refused("no nn.Linear to replace", lambda: gemm_tuned.patch_linear(torch.Module()))
print("right")
