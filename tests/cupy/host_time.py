"""Times the host's part of products of CuPy arrays without a GPU: the module of an export with a library that does nothing,
and the real CuPy with arrays that have addresses and no memory. Checks what a call tells the library, and prints
microseconds of a call, the best of several rounds. On a GPU the launch and CuPy's allocator come in addition.

    host_time.py FOLDER        FOLDER has the Python modules of an export; no library is needed
"""

import ctypes
import struct
import sys
import time

sys.path.insert(0, sys.argv[1])
import cupy  # noqa: E402: the folder is an argument
import gemm_tuned  # noqa: E402
import ml_dtypes  # noqa: E402

ROUNDS, CALLS = 9, 2000
MEMORY = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(1 << 40, 1 << 30, None, 0), 0)


class Current:
    """The current stream and device of a machine without a GPU."""

    ptr = id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Array(cupy.ndarray):
    """An array whose device needs no driver."""

    __module__ = "cupy"
    device = Current()


class Library:
    """What the module calls. `said` is the problem and the operands of the last product."""

    gemm_tuned_create = gemm_tuned_set_allocation = gemm_tuned_measure = gemm_tuned_check = lambda *_: 0

    def gemm_tuned_choose(self, handle, problem, room, choice):
        choice._obj.workspace_bytes = 0
        return 0

    def gemm_tuned_run(self, handle, reference, operands, place, count, stream):
        problem = gemm_tuned.library.Problem.from_address(reference)
        names = "dtype dtype_d transpose_a transpose_b m n k batch lda ldb ldd stride_a stride_b".split()
        self.said = {name: getattr(problem, name) for name in names}
        self.operands = struct.unpack("12N", operands)
        return 0


def array(shape, dtype, strides=None):
    return Array(shape, dtype, MEMORY, strides)


def microseconds(call):
    """Of the processor, so that other programs count little."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - start) / CALLS * 1e6)
    return best


def check(library):
    """Transposed views, padded rows, batches and results of another dtype."""
    for dtype, number in (("float32", gemm_tuned.library.F32), ("float16", gemm_tuned.library.F16), (ml_dtypes.bfloat16, gemm_tuned.library.BF16)):
        size = cupy.dtype(dtype).itemsize
        a, b = array((3, 8, 16), dtype, (256 * size, 32 * size, size)), array((24, 16), dtype).T
        for _ in range(2):
            d = gemm_tuned.matmul(a, b, bias=array((3, 24), dtype), epilogue="bias")
            assert d.shape == (3, 8, 24) and d.dtype == a.dtype, d
            own = dict(m=8, n=24, k=16, batch=3, lda=32, ldb=16, ldd=24, stride_a=256, stride_b=0, transpose_a=0, transpose_b=1)
            assert library.said == own | {"dtype": number, "dtype_d": number}, library.said
            assert library.operands[7] == MEMORY.ptr, library.operands
    a, b = array((16, 32), "int8"), array((24, 32), "int8").T
    scales = {"row_scale": array((16,), "float32"), "col_scale": array((24,), "float32")}
    for out, name in ((None, "int32"), ("bfloat16", "bfloat16"), ("f16", "float16")):
        others = scales | {"epilogue": "row-scale,col-scale"} if out else {}
        assert str(gemm_tuned.matmul(a, b, out_dtype=out, **others).dtype) == name
    try:
        gemm_tuned.matmul(array((8, 8), "float16", (17, 2)), array((8, 8), "float16"))
    except gemm_tuned.GemmTunedError as error:
        assert "not whole elements apart" in str(error), error
    else:
        raise AssertionError("an array with half an element between rows is read")
    limit, gemm_tuned.MAX_CALLS = gemm_tuned.MAX_CALLS, 3
    for extent in range(1, 9):
        gemm_tuned.matmul(array((8, extent), "float32"), array((extent, 8), "float32"))
    gemm_tuned.MAX_CALLS = limit


def main():
    cupy.cuda.set_allocator(lambda size: MEMORY)
    cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream = (lambda: 0), lambda device: Current
    library = gemm_tuned.library._library = Library()
    check(library)
    # A function of C in the place of the product, which returns the first argument: the handle, which is 0.
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    gemm_tuned._calls.clear()
    library.gemm_tuned_run = ctypes.CDLL(None).labs
    library.gemm_tuned_run.argtypes = [pointer, pointer, pointer, pointer, size, pointer]
    print(f"CuPy {cupy.__version__}: microseconds of a call")
    for dtype in ("float32", ml_dtypes.bfloat16):
        a, b, bias = array((64, 32), dtype), array((48, 32), dtype).T, array((48,), dtype)
        name = cupy.dtype(dtype).name
        print(f"{name:9} product {microseconds(lambda: gemm_tuned.matmul(a, b)):6.1f}")
        print(f"{name:9} bias    {microseconds(lambda: gemm_tuned.matmul(a, b, bias=bias, epilogue='bias')):6.1f}", flush=True)
    a, b, rows, columns = array((64, 32), "int8"), array((48, 32), "int8").T, array((64,), "float32"), array((48,), "float32")
    scaled = lambda: gemm_tuned.matmul(a, b, out_dtype="float16", row_scale=rows, col_scale=columns,  # noqa: E731
                                       epilogue="row-scale,col-scale")
    print(f"int8      scales  {microseconds(scaled):6.1f}")


if __name__ == "__main__":
    main()
