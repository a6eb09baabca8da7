"""Triton's autotuner on C = A B in float32: how long it takes, how fast its winner is.

    triton_autotuner.py SHAPE... [--csv FILE] [--beside FOLDER] [--limit-s SECONDS]

A rival of gemm-tune and no part of it: one kernel as Triton's users write it, and a list of
configurations as they give to `triton.autotune`. It has no split of K: adding parts with atomics would
round differently from run to run, and a second kernel is not what the autotuner chooses. Products with
few tiles of C suffer from that. A and B of a product have less than 2^31 elements each. A shape is a
line of gemm-tune's --shapes: MxNxK, layout and batch.

Each shape is tuned twice, with `input_precision` "ieee" and "tf32x3", in a process of its own with an
empty cache; `autotune_s` is the first call with all compiling, without starting Python and the GPU. Then
both winners are timed in turn with `torch.matmul` in strict float32 (cuBLAS) and, with --beside, with
the kernel in a folder that `gemm-tune export --format python` wrote. What breaks or runs out of time is
a row with a message; the others go on.
"""

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import triton
import triton.language as tl

PRECISIONS = ("ieee", "tf32x3")
FIELDS = ("shape", "contestant", "precision", "tried", "skipped", "autotune_s", "own_us", "median_us",
          "p05_us", "p95_us", "tflops", "max_error", "config", "message")

# BLOCK_M, BLOCK_N, BLOCK_K, warps, stages.
CONFIGS = [
    (32, 32, 32, 4, 3), (32, 32, 64, 4, 4), (32, 64, 32, 4, 4), (64, 32, 32, 4, 4),
    (32, 128, 32, 4, 4), (128, 32, 32, 4, 4), (32, 256, 32, 4, 3), (256, 32, 32, 4, 3),
    (64, 64, 16, 4, 4), (64, 64, 32, 4, 3), (64, 64, 32, 4, 5), (64, 64, 64, 4, 3),
    (64, 128, 16, 4, 4), (64, 128, 32, 4, 3), (64, 128, 32, 8, 4), (64, 128, 64, 8, 3),
    (128, 64, 16, 4, 4), (128, 64, 32, 4, 3), (128, 64, 32, 8, 4), (128, 64, 64, 8, 3),
    (128, 128, 16, 4, 3), (128, 128, 16, 8, 3), (128, 128, 16, 8, 5), (128, 128, 32, 4, 3),
    (128, 128, 32, 8, 3), (128, 128, 32, 8, 4), (128, 128, 64, 8, 2),
    (64, 256, 16, 8, 4), (64, 256, 32, 8, 3), (256, 64, 16, 8, 4), (256, 64, 32, 8, 3),
    (128, 256, 16, 8, 3), (128, 256, 32, 8, 3), (256, 128, 16, 8, 3), (256, 128, 32, 8, 3),
]
# Rows of tiles that neighbouring programs share: their tiles of B stay in the L2 cache.
GROUP_M = 8

# As src/measure/sampling.rs has them.
ROUNDS, SAMPLE_US, MAX_LAUNCHES = 20, 1000, 256
# The cache is overwritten this many times before a sample: a graph of 256 launches takes the host
# longer to start than one of these lasts.
FLUSHES = 8
ROWS_CHECKED = 64
# What a process may take besides tuning: importing, the kernel that is compiled when time runs out.
GRACE_S = 120


@triton.heuristics({"WHOLE_K": lambda given: given["K"] % given["BLOCK_K"] == 0})
@triton.jit
def product(a, b, c, M, N, K, a_batch, a_row, a_step, b_batch, b_step, b_column, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            GROUP: tl.constexpr, WHOLE_K: tl.constexpr, PRECISION: tl.constexpr):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    group_size = GROUP * tl.cdiv(N, BLOCK_N)
    first = program // group_size * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = program % group_size
    rows = (first + inside % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = inside // height * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    # Beyond an edge the first rows and columns come again: they reach nothing that is stored.
    batch = tl.program_id(1).to(tl.int64)
    a_at = a + batch * a_batch + (rows % M)[:, None] * a_row + steps[None, :] * a_step
    b_at = b + batch * b_batch + steps[:, None] * b_step + (columns % N)[None, :] * b_column
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if WHOLE_K:
            a_tile = tl.load(a_at)
            b_tile = tl.load(b_at)
        else:
            a_tile = tl.load(a_at, mask=steps[None, :] < K - k, other=0.0)
            b_tile = tl.load(b_at, mask=steps[:, None] < K - k, other=0.0)
        sums = tl.dot(a_tile, b_tile, sums, input_precision=PRECISION)
        a_at += BLOCK_K * a_step
        b_at += BLOCK_K * b_step
    c_at = c + batch * M * N + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(c_at, sums, mask=(rows[:, None] < M) & (columns[None, :] < N))


class Problem:
    """A shape, and operands for it as tensors of batch x rows x columns, views where they are transposed."""

    def __init__(self, shape):
        extents, *rest = shape.split()
        self.m, self.n, self.k = map(int, extents.split("x"))
        self.batch = next((int(word[1:]) for word in rest if word.startswith("x")), 1)
        self.layout = next((word for word in rest if not word.startswith("x")), "nn")

    @property
    def flops(self):
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self):
        return 4 * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)

    def operands(self):
        import torch

        def uniform(rows, columns, transposed):
            stored = (columns, rows) if transposed else (rows, columns)
            values = torch.rand(self.batch, *stored, device="cuda") * 2 - 1
            return values.mT if transposed else values

        return (uniform(self.m, self.k, self.layout[0] == "t"), uniform(self.k, self.n, self.layout[1] == "t"),
                torch.empty(self.batch, self.m, self.n, device="cuda"))

    def grid(self, given):
        return triton.cdiv(self.m, given["BLOCK_M"]) * triton.cdiv(self.n, given["BLOCK_N"]), self.batch

    def launch(self, kernel, operands, **options):
        a, b, c = operands
        kernel[self.grid](a, b, c, self.m, self.n, self.k, *a.stride(), *b.stride(), **options)


# Tuning, in a process of its own ------------------------------------------------------------------

def tune(shape, precision, limit_s):
    """Autotunes once, and says what came of it."""
    import torch
    import triton.testing

    problem = Problem(shape)
    operands = problem.operands()
    # The driver's stubs and the first context are no part of tuning.
    torch.zeros(1, device="cuda").item()
    triton.runtime.driver.active.get_current_target()
    deadline = time.perf_counter() + limit_s
    out_of_time = 0

    def bench(call, quantiles):
        """Triton's own, until time runs out: its loop over configurations cannot be left."""
        nonlocal out_of_time
        if time.perf_counter() > deadline:
            out_of_time += 1
            return [math.inf] * 3
        return triton.testing.do_bench(call, quantiles=quantiles)

    configs = [triton.Config({"BLOCK_M": m_, "BLOCK_N": n_, "BLOCK_K": k_, "GROUP": GROUP_M},
                             num_warps=warps, num_stages=stages)
               for m_, n_, k_, warps, stages in CONFIGS]
    tuned = triton.autotune(configs, key=["M", "N", "K"], do_bench=bench)(product)
    begin = time.perf_counter()
    problem.launch(tuned, operands, PRECISION=precision)
    torch.cuda.synchronize()
    autotune_s = time.perf_counter() - begin
    medians = [times[0] for times in tuned.configs_timings.values() if math.isfinite(times[0])]
    if not medians:
        raise RuntimeError(f"no configuration ran within {limit_s} s")
    best = tuned.best_config
    return {"tried": len(medians), "skipped": len(configs) - len(medians), "autotune_s": autotune_s,
            "own_us": min(medians) * 1000,
            "config": dict(best.kwargs, num_warps=best.num_warps, num_stages=best.num_stages),
            "message": f"{out_of_time} not tried within {limit_s:g} s" if out_of_time else ""}


# Timing in turn, in a process of its own ----------------------------------------------------------

class Contest:
    """Times contestants in turn, each on operands that are not in the L2 cache."""

    def __init__(self, shape):
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.problem = torch, Problem(shape)
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        sets = min(2 * l2_bytes // self.problem.bytes + 1, MAX_LAUNCHES)
        torch.manual_seed(0)
        self.sets = [self.problem.operands() for _ in range(sets)]
        self.flushed = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")
        # The default stream waits for all others.
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def recorded(self, launch, count):
        """A graph of launches, which take no time of the host's; the first one of all compiles."""
        graph = self.torch.cuda.CUDAGraph()
        launch(*self.sets[0])
        self.stream.synchronize()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for turn in range(count):
                launch(*self.sets[turn % len(self.sets)])
        return graph

    def sample_us(self, graph, count):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(FLUSHES):
            self.flushed.fill_(1)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / count

    def max_error(self, launch):
        """The largest error over |A| |B|, as gemm-tune states it, in rows from all over C."""
        torch, (a, b, c) = self.torch, self.sets[0]
        c.fill_(math.nan)
        launch(a, b, c)
        self.stream.synchronize()
        rows = torch.linspace(0, self.problem.m - 1, min(ROWS_CHECKED, self.problem.m), device="cuda").long()
        x, y = a[:, rows].double(), b.double()
        error = (c[:, rows].double() - x @ y).abs() / (x.abs() @ y.abs())
        return float(error.max())

    def times(self, contestants):
        """Of each name the samples in microseconds and the error, or why there are none."""
        results, graphs = {}, {}
        with self.torch.cuda.stream(self.stream):
            for name, launch in contestants.items():
                try:
                    error = self.max_error(launch)
                    probe = self.recorded(launch, 10)
                    one = min(self.sample_us(probe, 10) for _ in range(3))
                    count = max(1, min(MAX_LAUNCHES, math.ceil(SAMPLE_US / one)))
                    graphs[name] = (self.recorded(launch, count), count)
                    results[name] = {"samples": [], "max_error": error}
                except Exception as why:  # noqa: BLE001: one that breaks must not end the contest
                    results[name] = {"message": first_line(why)}
            for _ in range(ROUNDS):
                for name, (graph, count) in graphs.items():
                    results[name]["samples"].append(self.sample_us(graph, count))
        return results


def measure(shape, configs, beside):
    """Times Triton's winners, by precision, in turn with the others."""
    contest = Contest(shape)

    def triton_launch(precision, config):
        return lambda *operands: contest.problem.launch(product, operands, PRECISION=precision, **config)

    def gemm_tune_launch(a, b, c):
        import gemm_tuned

        gemm_tuned.matmul(a[0], b[0], out=c[0])

    contestants = {f"triton {precision}": triton_launch(precision, config)
                   for precision, config in configs.items()}
    contestants["cublas"] = lambda a, b, c: contest.torch.matmul(a, b, out=c)
    # What is exported for Python multiplies one product at a time.
    if beside and contest.problem.batch == 1:
        sys.path.insert(0, beside)
        contestants["gemm-tune"] = gemm_tune_launch
    return contest.times(contestants)


# The driver ---------------------------------------------------------------------------------------

def first_line(why):
    return (str(why).strip().splitlines() or [type(why).__name__])[0][:200]


def child(cache, timeout_s, *arguments):
    """What a process of this file answers, as data; {"message": ...} where it breaks."""
    # Python's own output is not trusted to be the answer alone: libraries print.
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer:
        command = [sys.executable, __file__, "--child", answer.name, *arguments]
        environment = dict(os.environ, TRITON_CACHE_DIR=cache, TRITON_CACHE_AUTOTUNING="0")
        try:
            done = subprocess.run(command, env=environment, timeout=timeout_s, stdout=sys.stderr,
                                  stderr=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            return {"message": f"ended after {timeout_s:g} s"}
        text = answer.read()
        if text:
            return json.loads(text)
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"message": said[-1][:200]}


def row_of(shape, name, precision, tuned, timed):
    row = dict.fromkeys(FIELDS, "")
    row.update(shape=shape, contestant=name, precision=precision)
    row.update({field: value for field, value in tuned.items() if field in FIELDS})
    row["config"] = " ".join(f"{key}={value}" for key, value in tuned.get("config", {}).items())
    samples = sorted(timed.get("samples", []))
    if samples:
        median = statistics.median(samples)
        row.update(median_us=median, p05_us=samples[len(samples) // 20],
                   p95_us=samples[-1 - len(samples) // 20], tflops=1e-6 * Problem(shape).flops / median,
                   max_error=timed["max_error"])
    row["message"] = "; ".join(dict.fromkeys(filter(None, (tuned.get("message"), timed.get("message")))))
    return {field: f"{value:.4g}" if field == "max_error" and value != "" else
            f"{value:.3f}" if isinstance(value, float) else value for field, value in row.items()}


def rows_of(shape, beside, limit_s):
    """All rows of a shape."""
    with tempfile.TemporaryDirectory(prefix="triton-") as caches:
        tuned = {}
        for precision in PRECISIONS:
            # Its own cache: nothing that one precision compiled serves the other.
            cache = os.path.join(caches, precision)
            tuned[precision] = child(cache, limit_s + GRACE_S, "tune", shape, precision, str(limit_s))
            print(f"{shape} {precision}: {tuned[precision]}", file=sys.stderr, flush=True)
        configs = {precision: one["config"] for precision, one in tuned.items() if "config" in one}
        timed = child(os.path.join(caches, PRECISIONS[0]), GRACE_S, "measure", shape, json.dumps(configs),
                      beside)
    broken = {"message": timed["message"]} if "message" in timed else {}
    for precision in PRECISIONS:
        yield row_of(shape, "triton", precision, tuned[precision], timed.get(f"triton {precision}", broken))
    for name in ("cublas", "gemm-tune"):
        if name in timed or (broken and (name == "cublas" or beside)):
            yield row_of(shape, name, "f32", {}, timed.get(name, broken))


def main():
    if sys.argv[1:2] == ["--child"]:
        _, _, answer, task, shape, *rest = sys.argv
        if task == "tune":
            result = tune(shape, rest[0], float(rest[1]))
        else:
            result = measure(shape, json.loads(rest[0]), rest[1])
        with open(answer, "w") as file:
            json.dump(result, file)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="+", metavar="SHAPE", help="MxNxK, layout and batch")
    parser.add_argument("--csv", help="file to write the rows to")
    parser.add_argument("--beside", default="", help="folder of `gemm-tune export --format python`")
    parser.add_argument("--limit-s", type=float, default=240,
                        help="for tuning a shape in one precision, without starting Python and the GPU")
    arguments = parser.parse_args()
    rows = []
    for shape in arguments.shapes:
        for row in rows_of(shape, arguments.beside, arguments.limit_s):
            rows.append(row)
            print("  ".join(str(row[field]) for field in FIELDS if row[field] != ""), flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
