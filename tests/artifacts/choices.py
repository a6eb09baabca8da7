"""Calls an exported Python module for problems of the standard input, as choices.c does, with stub_driver.c in the
place of the driver and stubs/torch.py in that of PyTorch.

    choices.py FOLDER        with LD_LIBRARY_PATH=FOLDER/stub
"""

import ctypes
import sys

FOLDER = sys.argv[1]
stub = ctypes.CDLL("libcuda.so.1")
stub.stub_recorded.restype = ctypes.c_char_p
stub.stub_current.restype = ctypes.c_void_p
sys.path[:0] = [FOLDER, __file__.rpartition("/")[0] + "/stubs"]
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402: the one of stubs/

OWN = 1 << 20  # a context of the caller's


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8]
COMPUTES = list(gemm_tuned.library.COMPUTES)


def matrix(address, batch, height, width, row, transposed, dtype):
    strides = (1, row) if transposed else (row, 1)
    if batch == 1:
        return torch.Tensor(address, (height, width), strides, dtype)
    stride = row * (width if transposed else height)
    return torch.Tensor(address, (batch, height, width), (stride, *strides), dtype)


def values(address, batch, count, dtype):
    return torch.Tensor(address, (count,) if batch == 1 else (batch, count), (count, 1)[batch == 1:], dtype)


def answer(line):
    layout, *numbers, epilogue = line.split()
    (m, n, k, batch, lda, ldb, ldd, a, b, d, place, room, *types, compute, bias, row_scale, col_scale, residual, mul, c,
     ldc) = map(int, numbers)
    epilogue = "" if epilogue == "-" else epilogue
    words = epilogue.split(",")
    of_a, of_b, of_d = (DTYPES[number] for number in types)
    operands = {
        "bias": values(bias, batch, n, of_d),
        "row_scale": values(row_scale, batch, m, torch.float32),
        "col_scale": values(col_scale, batch, n, torch.float32),
        "residual": matrix(residual, batch, m, n, ldd, False, of_d),
        "mul": matrix(mul, batch, m, n, ldd, False, of_d),
    }
    named = {name: array for name, array in operands.items() if name.replace("_", "-") in words}
    if c != 0:
        named["c"] = matrix(c, batch, m, n, ldc, False, of_d)
    stub.stub_begin()
    torch.memory(place, room)
    try:
        whole = of_d is torch.int32
        gemm_tuned.matmul(matrix(a, batch, m, k, lda, layout[0] == "t", of_a),
                          matrix(b, batch, k, n, ldb, layout[1] == "t", of_b),
                          matrix(d, batch, m, n, ldd, False, of_d), -3 if whole else -0.75, 2 if whole else 0.5,
                          compute=COMPUTES[compute], epilogue=epilogue, **named)
    except gemm_tuned.GemmTunedError as error:
        return "none" if "has no kernel" in str(error) else "refused"
    finally:
        # The caller's context is current again, whatever happened.
        assert (stub.stub_contexts(), stub.stub_current()) == (1, OWN), line
    return stub.stub_recorded().decode()


stub.cuCtxPushCurrent_v2(ctypes.c_void_p(OWN))
for line in sys.stdin:
    print(answer(line))
