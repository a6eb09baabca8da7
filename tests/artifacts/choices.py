"""Calls an exported Python module for problems of the standard input, as choices.c does, with stub_driver.c in the
place of the driver and stubs/torch.py in that of PyTorch.

    choices.py FOLDER LIBRARY
"""

import ctypes
import sys

FOLDER, LIBRARY = sys.argv[1:]
stub = ctypes.CDLL(LIBRARY)
stub.stub_recorded.restype = stub.stub_memory_calls.restype = ctypes.c_char_p
stub.stub_current.restype = ctypes.c_void_p
real = ctypes.CDLL
ctypes.CDLL = lambda name, *rest: stub if name == "libcuda.so.1" else real(name, *rest)
sys.path[:0] = [FOLDER, __file__.rpartition("/")[0] + "/stubs"]
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402: the one of stubs/

OWN = 1 << 20  # a context of the caller's


def matrix(address, height, width, row, transposed):
    return torch.Tensor(address, (height, width), (1, row) if transposed else (row, 1))


def answer(line):
    layout, *numbers = line.split()
    m, n, k, lda, ldb, ldc, a, b, c, place, room = map(int, numbers)
    stub.stub_begin(ctypes.c_uint64(place), ctypes.c_uint64(room))
    gemm_tuned._driver().workspaces.clear()
    try:
        gemm_tuned.matmul(matrix(a, m, k, lda, layout[0] == "t"), matrix(b, k, n, ldb, layout[1] == "t"),
                          matrix(c, m, n, ldc, False), -0.75, 0.5)
    except gemm_tuned.GemmTunedError as error:
        return "none" if "has no kernel" in str(error) else "refused"
    finally:
        # The caller's context is current again, whatever happened.
        assert (stub.stub_contexts(), stub.stub_current()) == (1, OWN), line
    return stub.stub_recorded().decode()


stub.cuCtxPushCurrent_v2(ctypes.c_void_p(OWN))
for line in sys.stdin:
    print(answer(line))
