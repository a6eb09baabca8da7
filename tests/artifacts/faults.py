"""What an exported Python module does where something fails, with stub_driver.c in the place of the driver.

    faults.py FOLDER LIBRARY
"""

import ctypes
import sys
import threading
import time

FOLDER, LIBRARY = sys.argv[1:]
stub = ctypes.CDLL(LIBRARY)
stub.stub_recorded.restype = stub.stub_memory_calls.restype = ctypes.c_char_p
stub.stub_current.restype = ctypes.c_void_p
drivers, real = [], ctypes.CDLL


def library(name, *rest):
    if name != "libcuda.so.1":
        return real(name, *rest)
    drivers.append(name)
    time.sleep(0.05)
    return stub


ctypes.CDLL = library
sys.path[:0] = [FOLDER, __file__.rpartition("/")[0] + "/stubs"]
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402: the one of stubs/

PLACE, OWN = 1 << 42, 1 << 20


def matmul(m, n, k, alpha=1, a=1 << 40, dtype=torch.float32, layout="nt"):
    matrix = [torch.Tensor(a, (m, k), (k, 1) if layout[0] == "n" else (1, m), dtype),
              torch.Tensor(1 << 41, (k, n), (n, 1) if layout[1] == "n" else (1, k), dtype),
              torch.Tensor(3 << 40, (m, n), (n, 1), dtype)]
    gemm_tuned.matmul(matrix[0], matrix[1], matrix[2], alpha)
    return stub.stub_recorded().decode()


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except gemm_tuned.GemmTunedError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{arguments} {named} is taken")
    assert stub.stub_contexts() == 1 and stub.stub_current() == OWN


def begin(room):
    stub.stub_begin(ctypes.c_uint64(PLACE), ctypes.c_uint64(room))


# Callers that come at the same time make one driver.
threads = [threading.Thread(target=gemm_tuned._driver) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert drivers == ["libcuda.so.1"], drivers
driver = gemm_tuned._driver()
stub.cuCtxPushCurrent_v2(ctypes.c_void_p(OWN))

# A workspace is allocated before the smaller one is freed, and stays where the larger one is refused.
begin(1 << 46)
small, large = matmul(2048, 2048, 2048), matmul(4096, 4096, 4096)
assert stub.stub_memory_calls() == b"aaf", stub.stub_memory_calls()
driver.workspaces.clear()
begin(1 << 46)
matmul(2048, 2048, 2048)
(address, size), = driver.workspaces.values()
begin(size)
without = matmul(4096, 4096, 4096)
assert stub.stub_memory_calls().startswith(b"x") and b"f" not in stub.stub_memory_calls()
assert driver.workspaces == {(0, 8): (address, size)} and without and without != large
begin(0)
assert matmul(2048, 2048, 2048) and stub.stub_memory_calls() == b"", "the workspace is there"
driver.workspaces.clear()
begin(0)
assert matmul(2048, 2048, 2048) and driver.workspaces == {}, "a kernel that needs none"

# What is refused, with the documented error; the caller's context is current afterwards.
refused("M is 0", gemm_tuned.kernel_for, 0, 8, 8)
refused("N is -1", gemm_tuned.kernel_for, 8, -1, 8)
refused("K is 2147479553", gemm_tuned.kernel_for, 8, 8, 2147479553)
refused("`f64` is no dtype", gemm_tuned.kernel_for, 8, 8, 8, dtype="f64")
refused("`xx` is no layout", gemm_tuned.kernel_for, 8, 8, 8, layout="xx")
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, 8.5)
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, "8")
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, 8, rows=(8, 8))
refused("lda is 4294967360", gemm_tuned.kernel_for, 8, 8, 8, rows=((1 << 32) + 64, 8, 8))
refused("ldb is 7", gemm_tuned.kernel_for, 8, 8, 8, rows=(8, 7, 8))
refused("aligned to 2 bytes", gemm_tuned.kernel_for, 8, 8, 8, alignment=2)
refused("at least 1 multiprocessor", gemm_tuned.kernel_for, 8, 8, 8, sms=0)
refused("float32 or int32", matmul, 8, 8, 8, dtype=torch.float64)
refused("aligned to 1 bytes", matmul, 8, 8, 8, a=(1 << 40) + 3)
refused("address is null", matmul, 8, 8, 8, a=0)
refused("alpha is 'x'", matmul, 8, 8, 8, alpha="x")
refused("no kernel for i32", matmul, 8, 8, 8, dtype=torch.int32)
refused("alpha is 4294967296", matmul, 8, 8, 8, dtype=torch.int32, alpha=1 << 32)
stub.stub_fail(1)
begin(1 << 46)
refused("cuLaunchKernel failed", matmul, 512, 512, 512)
stub.stub_fail(0)
assert matmul(512, 512, 512)

# Kernels with one name and other code are other functions.
kernels = gemm_tuned._bundle()[1]
assert len({kernel.name for kernel in kernels}) == len(kernels)
for kernel in kernels:
    kernel.name = "the same"
gemm_tuned._choose.cache_clear()
begin(1 << 46)
first = matmul(1024, 1024, 1024)
begin(1 << 46)
second = matmul(1001, 1001, 1001)
assert first.split(":")[0] != second.split(":")[0], (first, second)
print("right")
