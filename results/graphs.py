"""Times an exported Python module beside cuBLASLt inside CUDA graphs, as inference engines multiply: many products one
after the other, each with weights of its own, so that these come from device memory.

    python3 results/graphs.py FOLDER PROBLEMS [DTYPE] [CSV]

FOLDER is what `gemm-tune export --format python` wrote, PROBLEMS a file of shapes, their layouts and epilogues (`beta`
adds C), DTYPE bf16 or f16. Every kernel that cuBLASLt's heuristics name for a problem is captured, and the fastest is
taken; where the library has no such epilogue, it multiplies only. Times are medians of interleaved rounds in
microseconds a product. `over_plain` is our time over that of our product without the epilogue. Rates count the bytes
of A, B and C, beside the rate of a copy of 2 GiB in the same process.
"""

import csv
import ctypes
import glob
import math
import os
import statistics
import sys

import torch

from cuda_graphs import graph_of, microseconds

sys.path.insert(0, sys.argv[1])
import gemm_tuned  # noqa: E402: the folder is an argument

TYPE = sys.argv[3] if len(sys.argv) > 3 else "bf16"
# The dtype, and its cudaDataType_t.
DTYPE, CUDA_TYPE = {"bf16": (torch.bfloat16, 14), "f16": (torch.float16, 2)}[TYPE]
ROUNDS, WORKSPACE = 15, 64 << 20
# Weights of a graph together, several times the L2 cache.
ROTATING_BYTES = 400 << 20
COLUMNS = ["problem", "dtype", "us", "library_us", "library_default_us", "speedup", "gb_per_s", "of_copy", "over_plain",
           "kernels"]
# cublasLtEpilogue_t, of those that it has; its gelu is the one by tanh.
EPILOGUES = {"bias": 4, "relu": 2, "bias,relu": 6, "gelu-tanh": 32, "bias,gelu-tanh": 36}


class Library:
    """cuBLASLt by its C interface: cublasLt.h has the numbers of attributes and types."""

    def __init__(self):
        folders = [os.path.dirname(torch.__file__), *sys.path]
        found = [name for folder in folders
                 for name in glob.glob(os.path.join(folder, "**", "libcublasLt.so*"), recursive=True)]
        self.c = ctypes.CDLL(found[0] if found else "libcublasLt.so")
        self.handle = self.created("cublasLtCreate")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def call(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: status {status}")

    def created(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def layout(self, rows, columns):
        return self.created("cublasLtMatrixLayoutCreate", CUDA_TYPE, ctypes.c_uint64(rows), ctypes.c_uint64(columns),
                            ctypes.c_int64(rows))

    def products(self, m, n, k, layout, epilogue, bias):
        """A function for each kernel of the heuristics, of C, A and B. Matrices are by rows, so that the library
        computes the transpose of C."""
        compute_f32, scale_f32, transpose_a, transpose_b = 68, 0, 3, 4
        description = self.created("cublasLtMatmulDescCreate", compute_f32, scale_f32)
        for attribute, flag in ((transpose_a, layout[1] == "t"), (transpose_b, layout[0] == "t")):
            self.call("cublasLtMatmulDescSetAttribute", description, attribute,
                      ctypes.byref(ctypes.c_int32(flag)), ctypes.c_size_t(4))
        if epilogue in EPILOGUES:
            self.call("cublasLtMatmulDescSetAttribute", description, 7,
                      ctypes.byref(ctypes.c_int32(EPILOGUES[epilogue])), ctypes.c_size_t(4))
            self.call("cublasLtMatmulDescSetAttribute", description, 8,
                      ctypes.byref(ctypes.c_uint64(bias.data_ptr())), ctypes.c_size_t(8))
        first = self.layout(k, n) if layout[1] == "t" else self.layout(n, k)
        second = self.layout(m, k) if layout[0] == "t" else self.layout(k, m)
        result = self.layout(n, m)
        preference = self.created("cublasLtMatmulPreferenceCreate")
        self.call("cublasLtMatmulPreferenceSetAttribute", preference, 1,
                  ctypes.byref(ctypes.c_uint64(WORKSPACE)), ctypes.c_size_t(8))
        # An algorithm of 64 bytes, and 32 bytes that say what it needs.
        asked, size, got = 32, 96, ctypes.c_int()
        found = (ctypes.c_char * (asked * size))()
        self.call("cublasLtMatmulAlgoGetHeuristic", self.handle, description, first, second, result, result, preference,
                  asked, found, ctypes.byref(got))
        one, beta = ctypes.c_float(1), ctypes.c_float(epilogue == "beta")

        def product(number):
            algorithm = ctypes.byref(found, number * size)

            def call(c, a, b):
                at = [ctypes.c_void_p(of.data_ptr()) for of in (b, a, c)]
                self.call("cublasLtMatmul", self.handle, description, ctypes.byref(one), at[0], first, at[1], second,
                          ctypes.byref(beta), at[2], result, at[2], result, algorithm,
                          ctypes.c_void_p(self.workspace.data_ptr()), ctypes.c_size_t(WORKSPACE),
                          ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return call

        return [product(number) for number in range(got.value)]


def own(epilogue, operands):
    """Our product as a function of C, A and B."""
    if epilogue == "beta":
        return lambda c, a, b: gemm_tuned.matmul(a, b, out=c, beta=1)
    return lambda c, a, b: gemm_tuned.matmul(a, b, out=c, epilogue=epilogue, **operands)


def copy_rate():
    """Bytes read and written in a second by a copy of 2 GiB: by the driver or by a kernel, whichever is faster."""
    a = torch.empty(1 << 29, device="cuda")
    b = torch.empty_like(a)
    ways = (lambda c, a, b: c.copy_(a)), (lambda c, a, b: torch.neg(a, out=c))
    graphs = [graph_of(way, b, a, [a] * 4) for way in ways]
    return 8 * a.numel() / (min(microseconds(graph, 4) for graph in graphs for _ in range(10)) * 1e-6)


def measured(line, library, rate):
    """A row of the table."""
    shape, *words = line.split()
    m, n, k = map(int, shape.split("x"))
    layout = words[0] if words else "nn"
    epilogue = words[1] if len(words) > 1 else ""

    def matrix(rows, columns, transposed=False):
        stored = torch.randn(*((columns, rows) if transposed else (rows, columns)), device="cuda").to(DTYPE)
        return stored.mT if transposed else stored

    a, c = matrix(m, k, layout[0] == "t"), torch.zeros(m, n, dtype=DTYPE, device="cuda")
    weights = [matrix(k, n, layout[1] == "t") for _ in range(max(8, math.ceil(ROTATING_BYTES / (2 * n * k))))]
    bias = matrix(1, n)[0]
    made = {"bias": lambda: bias, "residual": lambda: matrix(m, n), "mul": lambda: matrix(m, n)}
    operands = {name: made[name]() for name in epilogue.split(",") if name in made}
    plain, fused = own("", {}), own(epilogue, operands)
    plain(c, a, weights[0])
    right = a.double() @ weights[0].double()
    error = float((c.double() - right).abs().max() / right.abs().max())
    assert error < 0.02, f"{line}: wrong by {error}"
    graphs = []
    for call in library.products(m, n, k, layout, epilogue, bias):
        try:
            graphs.append(graph_of(call, c, a, weights))
        except RuntimeError:
            # A kernel that the library names but does not run for this problem.
            torch.cuda.synchronize()
    first = [min(microseconds(graph, len(weights)) for _ in range(4)) for graph in graphs]
    fastest = sorted(range(len(first)), key=first.__getitem__)[:3]
    ours = [graph_of(call, c, a, weights) for call in (plain, fused)]
    contestants = [*(graphs[one] for one in fastest), graphs[0], *ours]
    rounds = [[microseconds(graph, len(weights)) for graph in contestants] for _ in range(ROUNDS + 1)][1:]
    *best, default, without, mine = (statistics.median(times) for times in zip(*rounds))
    moved = 2 * (m * k + n * k + m * n) / (mine * 1e-6)
    values = [line, TYPE, mine, min(best), default, min(best) / mine, moved / 1e9, moved / rate, mine / without,
              len(graphs)]
    return dict(zip(COLUMNS, values))


def main():
    library, rate = Library(), copy_rate()
    print(f"{torch.cuda.get_device_name()}: a copy moves {rate / 1e9:.0f} GB/s")
    rows = []
    with open(sys.argv[2]) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                rows.append(measured(line.strip(), library, rate))
                torch.cuda.empty_cache()
                print("{problem:34} {us:8.2f} us, cuBLASLt {library_us:8.2f} ({library_default_us:.2f} by default), "
                      "{speedup:.3f} times as fast, {gb_per_s:.0f} GB/s, {of_copy:.3f} of a copy, {over_plain:.3f} of "
                      "the plain product".format(**rows[-1]), flush=True)
    if len(sys.argv) > 4:
        with open(sys.argv[4], "w") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow({name: f"{value:.4g}" if isinstance(value, float) else value
                                 for name, value in row.items()})
    speedups = [row["speedup"] for row in rows]
    print(f"{len(rows)} problems: {statistics.geometric_mean(speedups):.3f} times as fast as cuBLASLt, "
          f"{sum(speedup < 1 for speedup in speedups)} slower")


main()
