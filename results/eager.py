"""Times an exported Python module beside torch.matmul, as programs call both, one after the other.

    python3 results/eager.py FOLDER PROBLEMS [CSV]

FOLDER is what `gemm-tune export --format python` wrote, PROBLEMS a file of `draw.py`. Every call makes a new array.
For each problem, the host time of the first call, the host times of later calls, and the times by the wall clock from
the first of several calls to the end of the last product, each the median of interleaved rounds in microseconds.
"""

import csv
import math
import statistics
import sys
import time

import torch

sys.path.insert(0, sys.argv[1])
import gemm_tuned  # noqa: E402: the folder is an argument

ROUNDS, CALLS, MAX_US = 15, 40, 30_000
COLUMNS = ["problem", "first_us", "host_us", "torch_host_us", "wall_us", "torch_wall_us", "error"]


def operands(line):
    """Matrices of a problem such as `64x32x16 nt x4`, as views where they are stored transposed."""
    shape, *words = line.split()
    m, n, k = map(int, shape.split("x"))
    layout = next((word for word in words if word in ("nn", "nt", "tn", "tt")), "nn")
    outer = [int(word[1:]) for word in words if word[0] == "x"]

    def matrix(rows, columns, transposed):
        extents = (columns, rows) if transposed else (rows, columns)
        stored = torch.rand(*outer, *extents, device="cuda") * 2 - 1
        return stored.mT if transposed else stored

    return matrix(m, k, layout[0] == "t"), matrix(k, n, layout[1] == "t")


def timed(function, a, b, calls):
    """Host time and time by the wall clock of a call, in microseconds."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function(a, b)
    queued = time.perf_counter()
    torch.cuda.synchronize()
    return (queued - begin) * 1e6 / calls, (time.perf_counter() - begin) * 1e6 / calls


def measured(line):
    """A row of the table."""
    a, b = operands(line)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    own = gemm_tuned.matmul(a, b)
    first = (time.perf_counter() - begin) * 1e6
    other = torch.matmul(a, b)
    error = float((own - other).abs().max() / other.abs().max())
    del own, other
    functions = (gemm_tuned.matmul, torch.matmul)
    longest = max(timed(function, a, b, 3)[1] for function in functions)
    calls = max(1, min(CALLS, int(MAX_US / longest)))
    rounds = [[timed(function, a, b, calls) for function in functions] for _ in range(ROUNDS)]
    median = [statistics.median(one[side][kind] for one in rounds) for kind in (0, 1) for side in (0, 1)]
    return [line, first, *median, error]


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    begin = time.perf_counter()
    gemm_tuned.matmul(*operands("8x8x8"))
    torch.cuda.synchronize()
    print(f"loading the kernels, and the first call: {(time.perf_counter() - begin) * 1e3:.0f} ms")
    rows = []
    with open(sys.argv[2]) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                rows.append(measured(line.strip()))
                torch.cuda.empty_cache()
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([row[0], *(f"{value:.4g}" for value in row[1:])] for row in rows)
    ratios = [row[5] / row[4] for row in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    slower = sorted((ratio, row[0]) for ratio, row in zip(ratios, rows))[:8]
    print(f"{len(rows)} problems: {mean:.3f} of torch.matmul's speed by the wall clock, "
          f"{sum(ratio < 1 for ratio in ratios)} slower, the worst {slower}")
    for name, place in (("first call", 1), ("later calls", 2), ("torch", 3)):
        times = sorted(row[place] for row in rows)
        print(f"host time, {name}: median {statistics.median(times):.1f} us, "
              f"{times[len(times) // 20]:.1f} to {times[-1 - len(times) // 20]:.1f} for 90 %")


main()
