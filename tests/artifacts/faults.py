"""What an exported Python module does where something fails, with stub_driver.c in the place of the driver.

    faults.py FOLDER        with LD_LIBRARY_PATH=FOLDER/stub
"""

import ctypes
import sys
import threading

FOLDER = sys.argv[1]
stub = ctypes.CDLL("libcuda.so.1")
stub.stub_recorded.restype = ctypes.c_char_p
stub.stub_current.restype = ctypes.c_void_p
sys.path[:0] = [FOLDER, __file__.rpartition("/")[0] + "/stubs"]
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402: the one of stubs/

PLACE, OWN = 1 << 42, 1 << 20


def operands(m, n, k, a=1 << 40, dtype=torch.float32, layout="nt", device=0):
    return (torch.Tensor(a, (m, k), (k, 1) if layout[0] == "n" else (1, m), dtype, device),
            torch.Tensor(1 << 41, (k, n), (n, 1) if layout[1] == "n" else (1, k), dtype, device),
            torch.Tensor(3 << 40, (m, n), (n, 1), dtype, device))


def matmul(m, n, k, alpha=1, **named):
    stub.stub_begin()
    gemm_tuned.matmul(*operands(m, n, k, **named), alpha)
    return stub.stub_recorded().decode()


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except gemm_tuned.GemmTunedError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{arguments} {named} is taken")
    assert stub.stub_contexts() == 1 and stub.stub_current() == OWN


# Callers that come at the same time make one handle.
handles = []
threads = [threading.Thread(target=lambda: handles.append(gemm_tuned.library.handle_of(0))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(handles) == 8 and len({handle.value for handle in handles}) == 1, handles
stub.cuCtxPushCurrent_v2(ctypes.c_void_p(OWN))

# The memory of the best kernel's workspace, or of one that needs less where it is missing.
torch.memory(PLACE, 1 << 46)
best = matmul(4096, 4096, 4096)
(count, there), = torch.allocations
assert there and count > 0 and f"{PLACE.to_bytes(8, 'little').hex()}" in best, best
torch.memory(PLACE, count)
assert matmul(4096, 4096, 4096) == best
torch.memory(PLACE, count - 1)
other = matmul(4096, 4096, 4096)
assert torch.allocations[0] == (count, False) and other and other != best, torch.allocations
torch.memory(PLACE, 0)
assert matmul(4096, 4096, 4096) and not any(there for _, there in torch.allocations)

# A new array, batches, a matrix beside a batch, and more calls than are remembered.
torch.memory(PLACE, 1 << 46)
a, b, _ = operands(64, 96, 32, layout="nn")
assert gemm_tuned.matmul(a, b).shape == (64, 96)
many = torch.Tensor(1 << 40, (5, 64, 32), (64 * 32, 32, 1))
assert gemm_tuned.matmul(many, b).shape == (5, 64, 96)
gemm_tuned.MAX_CALLS = 2
for extent in range(1, 9):
    assert matmul(extent, 8, 8) and 1 <= len(gemm_tuned._calls) <= 2
# Only a caller's factors are passed.
assert matmul(8, 8, 8, alpha=2) != matmul(8, 8, 8)

# What is refused, with the documented error; the caller's context is current afterwards.
assert gemm_tuned.kernel_for(0, 8, 8) == gemm_tuned.kernel_for(8, 8, 8, batch=0) == "nothing"
refused("n is -1", gemm_tuned.kernel_for, 8, -1, 8)
refused("k is 2147479553", gemm_tuned.kernel_for, 8, 8, 2147479553)
refused("m is 18446744073709551624: give a number of 64 bits", gemm_tuned.kernel_for, (1 << 64) + 8, 8, 8)
refused("`f64` is no dtype", gemm_tuned.kernel_for, 8, 8, 8, dtype="f64")
refused("`xx` is no layout", gemm_tuned.kernel_for, 8, 8, 8, layout="xx")
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, 8.5)
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, "8")
refused("whole numbers", gemm_tuned.kernel_for, 8, 8, 8, rows=(8, 8))
refused("rows are 0, 8, 8", gemm_tuned.kernel_for, 8, 8, 8, rows=(0, 8, 8))
refused("lda is 4294967360", gemm_tuned.kernel_for, 8, 8, 8, rows=((1 << 32) + 64, 8, 8))
refused("ldb is 7", gemm_tuned.kernel_for, 8, 8, 8, rows=(8, 7, 8))
refused("alignment is 2", gemm_tuned.kernel_for, 8, 8, 8, alignment=2)
refused("alignment is 0", gemm_tuned.kernel_for, 8, 8, 8, alignment=0)
refused("give float32", matmul, 8, 8, 8, dtype=torch.float64)
refused("alignment is 1", matmul, 8, 8, 8, a=(1 << 40) + 3)
refused("address is null", matmul, 8, 8, 8, a=0)
refused("alpha is 'x'", matmul, 8, 8, 8, alpha="x")
refused("no kernel for 8x8x8 x 1 i32 nt", matmul, 8, 8, 8, dtype=torch.int32)
refused("host memory", matmul, 8, 8, 8, device=-1)
refused("opening GPU 3 failed: an error of the stub", matmul, 8, 8, 8, device=3)
refused("have no product", gemm_tuned.matmul, a, a)
refused("have no product", gemm_tuned.matmul, many, torch.Tensor(1 << 41, (4, 32, 96), (3072, 96, 1)))
refused("pass it as `out`", gemm_tuned.matmul, a, b, beta=1)
refused("out is (64, 95)", gemm_tuned.matmul, a, b, torch.Tensor(3 << 40, (64, 95), (95, 1)))
refused("out is (64, 96)", gemm_tuned.matmul, a, b, torch.Tensor(3 << 40, (64, 96), (1, 64)))
refused("neither rows nor columns of a", gemm_tuned.matmul, torch.Tensor(1 << 40, (64, 32), (64, 2)), b)
refused("an operand is a list", gemm_tuned.matmul, a, [[1.0]])
assert gemm_tuned.matmul(a, torch.Parameter(1 << 41, (32, 96), (96, 1))).shape == (64, 96)
refused("stride_d is 0", gemm_tuned.matmul, many, b, torch.Tensor(3 << 40, (5, 64, 96), (0, 96, 1)))
# Without elements nothing is launched; without an inner extent, rows are filled, or kernels multiply zeros.
torch.memory(PLACE, 1 << 46)
assert matmul(0, 8, 8, a=0) == matmul(8, 0, 8, a=0) == "" == matmul(0, 0, 0, a=0) and torch.allocations == []
assert gemm_tuned.matmul(torch.Tensor(0, (0, 4, 8), (32, 8, 1)), torch.Tensor(0, (8, 3), (3, 1))).shape == (0, 4, 3)
assert matmul(64, 96, 0, a=0) == f"fill:{3 << 40},{96 * 4}:{96 * 4},64;" and torch.allocations == []
_, _, out = operands(64, 96, 0)
none_a, none_b = torch.Tensor(0, (64, 0), (1, 1)), torch.Tensor(0, (0, 96), (96, 1))
stub.stub_begin()
gemm_tuned.matmul(none_a, none_b, out, beta=1)
assert stub.stub_recorded() == b"" and torch.allocations == []
gemm_tuned.matmul(none_a, none_b, out, beta=0.5)
(zeros, _), = torch.allocations
said = stub.stub_recorded().decode()
assert zeros >= 96 * 4 and said.count(PLACE.to_bytes(8, "little").hex()) >= 2 and "0000003f" in said, said
# With an alpha of 0, what a and b hold is not read either.
a, b, out = operands(64, 96, 32)
torch.memory(PLACE, 1 << 46)
assert matmul(64, 96, 32, alpha=0) == f"fill:{3 << 40},{96 * 4}:{96 * 4},64;" and torch.allocations == []
stub.stub_begin()
gemm_tuned.matmul(a, b, out, alpha=0.0, beta=0.5)
said = stub.stub_recorded().decode()
assert (1 << 40).to_bytes(8, "little").hex() not in said and "0000003f" in said, said
refused("have no product", gemm_tuned.matmul, a, a, alpha=0)

# A workspace of at most RESERVED_BYTES is reserved, one for each stream, unless the stream is captured, another GPU
# is current, or memory is missing: then it is an array, as are larger ones.
assert not gemm_tuned._reserved
captured, current, stream = [False], [0], torch.cuda.current_stream(0)
torch._C._cuda_isCurrentStreamCapturing, torch._C._cuda_getDevice = lambda: captured[0], lambda: current[0]
for known in (gemm_tuned.arrays.adapters, gemm_tuned.arrays.adapters_of_packages, gemm_tuned._calls):
    known.clear()


def needed(shape):
    """Bytes of the workspace of the best kernel."""
    adapter = gemm_tuned.arrays.adapter_of("torch")
    call = gemm_tuned.prepared(adapter, (*map(adapter.described, operands(*shape)), 256, (None, None, ""), ()))
    return gemm_tuned.library.chosen(call.handle, call.problem).workspace_bytes


shapes = (64, 64, 65536), (256, 256, 16384), (512, 512, 512), (1024, 1024, 1024), (4096, 4096, 4096)
needs = {shape: needed(shape) for shape in shapes}
small = next(shape for shape, count in needs.items() if 0 < count <= gemm_tuned.RESERVED_BYTES)
large = next(shape for shape, count in needs.items() if count > gemm_tuned.RESERVED_BYTES)
stub.stub_memory(ctypes.c_ulonglong(1 << 40))
torch.memory(PLACE, 1 << 46)
reserved = matmul(*small)
assert reserved and torch.allocations == [] and gemm_tuned._reserved == {(0, 8): True} and stub.stub_allocations() == 1
assert matmul(*small) == reserved and stub.stub_allocations() == 1
stream.cuda_stream = 9
assert matmul(*small) and gemm_tuned._reserved == {(0, 8): True, (0, 9): True} and stub.stub_allocations() == 2
stub.stub_memory(ctypes.c_ulonglong(0))
for number, is_captured, device, shape in ((8, True, 0, small), (8, False, 1, small), (8, False, 0, large), (10, False, 0, small)):
    stream.cuda_stream, captured[0], current[0] = number, is_captured, device
    torch.memory(PLACE, 1 << 46)
    lent = matmul(*shape)
    assert torch.allocations == [(needs[shape], True)] and PLACE.to_bytes(8, "little").hex() in lent, torch.allocations
assert gemm_tuned._reserved[0, 10] is False and stub.stub_allocations() == 2
stream.cuda_stream, captured[0], current[0] = 8, False, 0
assert matmul(*small) == reserved

stub.stub_fail(1)
refused("the product failed: an error of the stub", matmul, 512, 512, 512)
stub.stub_fail(0)
assert matmul(512, 512, 512)
print("right")
