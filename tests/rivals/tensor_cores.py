"""Times products on tensor cores beside Triton's autotuner, CUTLASS and PyTorch, all in CUDA graphs over rotating B.

    tensor_cores.py FOLDER PROBLEMS DTYPE [--cutlass LIBRARY.so] [--csv FILE]

FOLDER is what `gemm-tune export --format python` wrote, PROBLEMS a file of shapes and layouts nn or nt, DTYPE bf16, f16
or i8. LIBRARY.so is what `cutlass.sh` compiled. Triton chooses among CONFIGS by its own autotuner, CUTLASS's fastest
product is found by trying all. A time is the median of interleaved rounds, in microseconds a product. Rivals of
gemm-tune and no part of it. What a contestant cannot multiply is empty in the table.
"""

import argparse
import csv
import ctypes
import math
import os
import statistics
import subprocess
import sys

import torch
import triton
import triton.language as tl

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "results"))
from cuda_graphs import graph_of, microseconds  # noqa: E402: the folder is beside this one

ROUNDS = 15
# B of a graph together, several times the L2 cache.
ROTATING_BYTES = 400 << 20
WORKSPACE_BYTES = 64 << 20
TYPES = {
    "bf16": (torch.bfloat16, torch.bfloat16),
    "f16": (torch.float16, torch.float16),
    "i8": (torch.int8, torch.int32),
}
CONTESTANTS = ("gemm-tune", "torch", "triton", "cutlass")
FIELDS = ("problem", "dtype", *(f"{name}_us" for name in CONTESTANTS), "over_best", "triton_config", "cutlass_product")
# BLOCK_M, BLOCK_N, bytes of BLOCK_K, warps, stages.
CONFIGS = [
    (64, 32, 256, 4, 4), (64, 64, 128, 4, 6), (64, 64, 256, 4, 4), (64, 128, 128, 4, 4), (64, 128, 256, 4, 3),
    (64, 256, 128, 4, 4), (128, 64, 128, 4, 4), (128, 128, 128, 4, 4), (128, 128, 128, 8, 4), (128, 128, 256, 8, 3),
    (128, 256, 128, 8, 3), (128, 256, 128, 8, 4), (256, 128, 128, 8, 3), (256, 128, 128, 8, 4),
]
# Rows of tiles that neighbouring programs share: their tiles of B stay in the L2 cache.
GROUP_M = 8


def configs(element_bytes):
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k // element_bytes}, num_warps=warps, num_stages=stages)
            for m, n, k, warps, stages in CONFIGS]


@triton.jit
def persistent(a, b, c, M, N, K, PROGRAMS: tl.constexpr, B_BY_COLUMNS: tl.constexpr, SUM: tl.constexpr,
               OUT: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
               BLOCK_K: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    if B_BY_COLUMNS:
        of_b = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    else:
        of_b = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    of_c = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        group_size = GROUP * tiles_n
        first = tile // group_size * GROUP
        height = tl.minimum(tiles_m - first, GROUP)
        row = (first + tile % group_size % height) * BLOCK_M
        column = tile % group_size // height * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUM)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            x = of_a.load([row, k * BLOCK_K])
            if B_BY_COLUMNS:
                y = of_b.load([column, k * BLOCK_K]).T
            else:
                y = of_b.load([k * BLOCK_K, column])
            sums = tl.dot(x, y, sums, out_dtype=SUM)
        of_c.store([row, column], sums.to(OUT))


class Triton:
    """Triton's kernel, tuned for each shape and layout at its first call."""

    def __init__(self, dtype):
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        self.programs = torch.cuda.get_device_properties(0).multi_processor_count
        self.sum, self.out = (tl.int32, tl.int32) if dtype == "i8" else (
            tl.float32, {"bf16": tl.bfloat16, "f16": tl.float16}[dtype])
        self.kernel = triton.autotune(configs(1 if dtype == "i8" else 2), key=["M", "N", "K", "B_BY_COLUMNS"])(persistent)

    def product(self, m, n, k, by_columns):
        def call(c, a, b):
            stored = b.mT if by_columns else b
            self.kernel[(self.programs,)](a, stored, c, m, n, k, self.programs, by_columns, self.sum, self.out, GROUP_M)
        return call

    def config(self):
        kwargs = self.kernel.best_config.all_kwargs()
        return " ".join(f"{name}={value}" for name, value in kwargs.items() if value is not None)


class Cutlass:
    """Products that `cutlass.sh` compiled."""

    def __init__(self, path):
        self.library = ctypes.CDLL(os.path.abspath(path))
        listed = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        self.names = sorted(line.split()[-1] for line in listed.splitlines() if line.split()[-1].startswith("product_"))
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def products(self, m, n, k):
        def product(name):
            function = getattr(self.library, name)

            def call(c, a, b):
                status = function(*(ctypes.c_void_p(of.data_ptr()) for of in (a, b, c)), m, n, k,
                                  ctypes.c_void_p(self.workspace.data_ptr()), ctypes.c_size_t(WORKSPACE_BYTES),
                                  ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
                if status != 0:
                    raise RuntimeError(f"{name}: status {status}")
            return call
        return {name: product(name) for name in self.names}


def torch_product(dtype, by_columns):
    if dtype == "i8":
        # Its product of integers takes B by columns only.
        return (lambda c, a, b: torch._int_mm(a, b, out=c)) if by_columns else None
    return lambda c, a, b: torch.matmul(a, b, out=c)


def tried(name, call, operands, right):
    """A graph of a contestant whose product is right, or None and a message."""
    c, a, weights = operands
    try:
        c.zero_()
        call(c, a, weights[0])
        error = float((c.double() - right).abs().max() / right.abs().max())
        if not error < 0.02:
            raise RuntimeError(f"wrong by {error}")
        return graph_of(call, c, a, weights)
    except Exception as error:  # a rival's failure is an empty field
        torch.cuda.synchronize()
        print(f"  {name}: {str(error).splitlines()[0][:120]}", flush=True)
        return None


def measured(line, dtype, gemm_tuned, of_triton, cutlass):
    """A row of the table."""
    shape, *words = line.split()
    m, n, k = map(int, shape.split("x"))
    by_columns = (words[0] if words else "nn") == "nt"
    element, out = TYPES[dtype]

    def matrix(rows, columns):
        if dtype == "i8":
            return torch.randint(-128, 128, (rows, columns), dtype=element, device="cuda")
        return torch.randn(rows, columns, device="cuda").to(element)

    a, c = matrix(m, k), torch.zeros(m, n, dtype=out, device="cuda")
    count = max(8, math.ceil(ROTATING_BYTES / (n * k * a.element_size())))
    weights = [matrix(n, k).mT if by_columns else matrix(k, n) for _ in range(count)]
    right = a.double() @ weights[0].double()
    operands = (c, a, weights)
    calls = {"gemm-tune": lambda c, a, b: gemm_tuned.matmul(a, b, out=c), "torch": torch_product(dtype, by_columns),
             "triton": of_triton.product(m, n, k, by_columns)}
    graphs = {name: tried(name, call, operands, right) for name, call in calls.items() if call is not None}
    config, fastest = "", ""
    if graphs["triton"] is not None:
        config = of_triton.config()
    if cutlass is not None and by_columns:
        found = {name: tried(name, call, operands, right) for name, call in cutlass.products(m, n, k).items()}
        found = {name: graph for name, graph in found.items() if graph is not None}
        first = {name: min(microseconds(graph, count) for _ in range(4)) for name, graph in found.items()}
        if first:
            fastest = min(first, key=first.get)
            graphs["cutlass"] = found[fastest]
    graphs = {name: graph for name, graph in graphs.items() if graph is not None}
    rounds = [{name: microseconds(graph, count) for name, graph in graphs.items()} for _ in range(ROUNDS + 1)][1:]
    times = {name: statistics.median(one[name] for one in rounds) for name in graphs}
    rivals = [time for name, time in times.items() if name != "gemm-tune"]
    row = {"problem": line, "dtype": dtype, "triton_config": config, "cutlass_product": fastest,
           **{f"{name}_us": f"{time:.4g}" for name, time in times.items()}}
    if "gemm-tune" in times and rivals:
        row["over_best"] = f"{min(rivals) / times['gemm-tune']:.4g}"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("problems")
    parser.add_argument("dtype", choices=TYPES)
    parser.add_argument("--cutlass")
    parser.add_argument("--csv")
    options = parser.parse_args()
    sys.path.insert(0, options.folder)
    import gemm_tuned
    cutlass = Cutlass(options.cutlass) if options.cutlass else None
    of_triton = Triton(options.dtype)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, CUDA {torch.version.cuda}")
    rows = []
    with open(options.problems) as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        rows.append(measured(line, options.dtype, gemm_tuned, of_triton, cutlass))
        torch.cuda.empty_cache()
        print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
        if options.csv:
            with open(options.csv, "w") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    for name in ("torch", "triton", "cutlass"):
        ratios = [float(row[f"{name}_us"]) / float(row["gemm-tune_us"]) for row in rows
                  if row.get(f"{name}_us") and row.get("gemm-tune_us")]
        if ratios:
            print(f"{name}: {statistics.geometric_mean(ratios):.3f} times gemm-tune's time over {len(ratios)} problems, "
                  f"{sum(ratio < 1 for ratio in ratios)} faster than it")


main()
