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


def matrix(address, batch, height, width, row, transposed):
    strides = (1, row) if transposed else (row, 1)
    if batch == 1:
        return torch.Tensor(address, (height, width), strides)
    stride = row * (width if transposed else height)
    return torch.Tensor(address, (batch, height, width), (stride, *strides))


def answer(line):
    layout, *numbers = line.split()
    m, n, k, batch, lda, ldb, ldc, a, b, c, place, room = map(int, numbers)
    stub.stub_begin()
    torch.memory(place, room)
    try:
        gemm_tuned.matmul(matrix(a, batch, m, k, lda, layout[0] == "t"),
                          matrix(b, batch, k, n, ldb, layout[1] == "t"),
                          matrix(c, batch, m, n, ldc, False), -0.75, 0.5)
    except gemm_tuned.GemmTunedError as error:
        return "none" if "has no kernel" in str(error) else "refused"
    finally:
        # The caller's context is current again, whatever happened.
        assert (stub.stub_contexts(), stub.stub_current()) == (1, OWN), line
    return stub.stub_recorded().decode()


stub.cuCtxPushCurrent_v2(ctypes.c_void_p(OWN))
for line in sys.stdin:
    print(answer(line))
