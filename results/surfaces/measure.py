"""Times products of an exported Python module through one of its surfaces, by the tuner's protocol. README.md says how.

    measure.py FOLDER PROBLEMS SURFACE

FOLDER is what `gemm-tune export --format python` wrote. SURFACE is `torch eager`, `torch operator`, `torch compiled`,
`torch graphed`, `cupy` or `jax`. Prints a row for each problem, as measure.c does.
"""

import gc
import math
import statistics
import sys
import time

import numpy
import problems as lists
from operands import Missing, largest_error, on_host, set_bytes, shapes

SAMPLES, FIRST_LAUNCHES, MAX_LAUNCHES, MAX_SETS, MAX_LATE = 31, 3, 256, 256, 100
# Ranks of the samples in order that bound the median of SAMPLES with 95 %.
LOW, HIGH = 9, 21
# Launches of a sample take so long together, as in a final of the tuner.
SAMPLE_US = 1000.0
# Most bytes that are overwritten before a sample.
MAX_FLUSHED = 1 << 31
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")


# Surfaces -----------------------------------------------------------------------------------------

class Surface:
    """Arrays of a package, and the calls of a surface. Samples are taken between events."""

    def sets_of(self, problem, launches):
        """How many sets of operands launches rotate through: together more than twice the L2 cache."""
        return min(MAX_SETS, 2 * self.l2_bytes // set_bytes(problem) + 1)

    def sets(self, problem, launches):
        """Sets of operands, which have the same numbers."""
        first = {name: self.array(value, shapes(problem)[name][1]) for name, value in on_host(problem).items()}
        copies = (self.sets_of(problem, launches) - 1)
        return [first, *({name: self.copied(value) for name, value in first.items()} for _ in range(copies))]

    def launcher(self, call, arguments, launches):
        """A function that queues so many products. As many results as sets are kept, so that results rotate too."""
        results = [None] * len(arguments)

        def run():
            for turn in range(launches):
                place = turn % len(arguments)
                results[place] = call(*arguments[place])
        return run

    def samples(self, run, launches, count):
        """Times of a product in order. Where the host is late, more is overwritten before the next sample; samples of a
        late host do not count."""
        taken, late = [], 0
        while len(taken) < count:
            us, is_late = self.sample(run)
            if not is_late:
                taken.append(us / launches)
                continue
            late += 1
            self.flush_bytes = min(MAX_FLUSHED, 2 * self.flush_bytes)
            if late > MAX_LATE:
                raise Missing("the host is slower than the GPU")
        return sorted(taken)

    def timed(self, problem):
        """The times of a problem, and the largest error over its bound."""
        sets = self.sets(problem, FIRST_LAUNCHES)
        with self.settings(problem):
            call, arguments = self.prepared(problem, sets)
            d = call(*arguments[0])
            self.wait()
            error = largest_error(problem, sets[0], d, self.host)
            del d
            self.flush_bytes = 2 * self.l2_bytes
            first = self.samples(self.launcher(call, arguments, FIRST_LAUNCHES), FIRST_LAUNCHES, 3)[1]
            launches = max(1, min(MAX_LAUNCHES, math.ceil(SAMPLE_US / first)))
            return self.samples(self.launcher(call, arguments, launches), launches, SAMPLES), error


def options(problem):
    """What `matmul` of the modules takes besides arrays."""
    own = {"epilogue": problem.epilogue} if problem.epilogue else {}
    return own | ({"compute": problem.compute} if problem.compute else {})


class Torch(Surface):
    """PyTorch in one of its ways: `eager`, `operator`, `compiled` or `graphed`."""

    def __init__(self, way):
        import gemm_tuned
        import torch
        import gemm_tuned_torch  # after torch, which it needs
        self.way, self.torch, self.module, self.functions = way, torch, gemm_tuned, gemm_tuned_torch
        self.dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32,
                       "i8": torch.int8}
        self.open()

    def open(self):
        torch = self.torch
        self.device = "cuda"
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.stream = torch.cuda.Stream()
        self.flushed = torch.empty(MAX_FLUSHED, dtype=torch.uint8, device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.wait()
        # A stream of its own, as the tuner has.
        torch.cuda.set_stream(self.stream)

    def array(self, value, kind):
        return self.torch.from_numpy(value).to(self.device).to(self.dtypes[kind])

    def copied(self, array):
        return array.clone()

    def host(self, array):
        return array.double().cpu().numpy()

    def wait(self):
        self.torch.cuda.synchronize()

    def settings(self, problem):
        self.torch.set_float32_matmul_precision("high" if problem.type == "tf32" else "highest")
        return self.torch.no_grad()

    def call_of(self, problem):
        """The call of a problem, and the names of its arguments."""
        of = self.torch.ops.gemm_tuned if self.way in ("operator", "compiled") else self.functions
        words, activation = problem.words, ""
        if problem.out == problem.usual_out and problem.layout[0] == "n":
            if not words:
                return of.mm, ("a", "b")
            if words == ["residual"]:
                return of.addmm, ("residual", "a", "b")
            if len(words) == 2 and words[1] in ACTIVATIONS:
                activation = words[1]
            if words[0] == "bias" and len(words) == 1 + bool(activation) and problem.layout == "nt":
                linear = of.linear
                return (lambda a, weight, bias: linear(a, weight, bias, activation)), ("a", "weight", "bias")
        if of is not self.functions:
            raise Missing("no such operator")
        matmul, own = self.module.matmul, options(problem)
        if problem.out != problem.usual_out:
            own["out_dtype"] = self.dtypes[problem.out]
        names = tuple(name for name in shapes(problem) if name not in ("a", "b"))
        return (lambda a, b, *others: matmul(a, b, **own, **dict(zip(names, others)))), ("a", "b", *names)

    def prepared(self, problem, sets):
        call, names = self.call_of(problem)
        if self.way == "compiled":
            self.torch._dynamo.reset()
            call = self.torch.compile(call, fullgraph=True, dynamic=False)
        arguments = []
        for one in sets:
            a = one["a"].mT if problem.layout[0] == "t" else one["a"]
            b = one["b"].mT if problem.layout[1] == "t" else one["b"]
            own = one | {"a": a, "b": b, "weight": one["b"]}
            arguments.append(tuple(own[name] for name in names))
        return call, arguments

    def launcher(self, call, arguments, launches):
        run = super().launcher(call, arguments, launches)
        if self.way != "graphed":
            return run
        run()
        self.wait()
        return self.recorded(run)

    def recorded(self, run):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            run()
        return graph.replay

    def sample(self, run):
        self.flushed[:self.flush_bytes].fill_(0x5A)
        self.begin.record()
        run()
        self.end.record()
        is_late = self.begin.query()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e3, is_late


class Cupy(Surface):
    def __init__(self):
        import cupy
        import gemm_tuned
        self.cupy, self.module = cupy, gemm_tuned
        self.l2_bytes = int(cupy.cuda.runtime.deviceGetAttribute(38, 0))  # cudaDevAttrL2CacheSize
        self.flushed = cupy.cuda.alloc(MAX_FLUSHED)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.begin, self.end = cupy.cuda.Event(), cupy.cuda.Event()
        self.wait()

    def array(self, value, kind):
        if kind == "bf16":
            try:
                import ml_dtypes
                value = value.astype(ml_dtypes.bfloat16)
                return self.cupy.asarray(value)
            except Exception as error:
                raise Missing(f"CuPy has no bfloat16 here: {error}") from error
        return self.cupy.asarray(value.astype({"f32": "float32", "f16": "float16", "i8": "int8"}[kind]))

    def copied(self, array):
        return array.copy()

    def host(self, array):
        return array.get().astype(numpy.float64)

    def wait(self):
        self.cupy.cuda.Device().synchronize()

    def settings(self, problem):
        self.wait()
        return self.stream

    def prepared(self, problem, sets):
        matmul, own = self.module.matmul, options(problem)
        if problem.out != problem.usual_out:
            own["out_dtype"] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[problem.out]
        names = tuple(name for name in shapes(problem) if name not in ("a", "b"))
        arguments = []
        for one in sets:
            a = one["a"].T if problem.layout[0] == "t" else one["a"]
            b = one["b"].T if problem.layout[1] == "t" else one["b"]
            arguments.append((a, b, *(one[name] for name in names)))
        return (lambda a, b, *others: matmul(a, b, **own, **dict(zip(names, others)))), arguments

    def sample(self, run):
        self.flushed.memset_async(0x5A, self.flush_bytes, self.stream)
        self.begin.record(self.stream)
        run()
        self.end.record(self.stream)
        is_late = self.begin.done
        self.end.synchronize()
        return self.cupy.cuda.get_elapsed_time(self.begin, self.end) * 1e3, is_late


class Jax(Surface):
    """JAX has no events. A sample is the time of a chain of products by the wall clock without that of a shorter one.
    Chains begin while the device overwrites memory, so that the host's time to start them is in neither."""

    SHORT, FLUSHED = 2, 1 << 30

    def __init__(self):
        import gemm_tuned_jax
        import jax
        from jax import numpy as jnp
        self.jax, self.jnp, self.module = jax, jnp, gemm_tuned_jax
        self.dtypes = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i8": jnp.int8}
        self.flush = jax.jit(lambda value: jnp.full(self.FLUSHED, value, jnp.uint8))
        if jax.default_backend() != "gpu":
            raise Missing("JAX finds no GPU")

    def sets_of(self, problem, launches):
        return launches + self.SHORT

    def array(self, value, kind):
        return self.jnp.asarray(value).astype(self.dtypes[kind])

    def copied(self, array):
        return self.jnp.array(array, copy=True)

    def host(self, array):
        return numpy.asarray(array).astype(numpy.float64)

    def wall_us(self, chain, sets):
        start = time.perf_counter()
        overwritten = self.flush(numpy.uint8(0x5A))
        results = chain(sets)
        self.jax.block_until_ready(results)
        us = (time.perf_counter() - start) * 1e6
        del overwritten, results
        return us

    def differences(self, product, sets, count):
        """Times of a product in order. All sets differ: XLA computes no product once for two."""
        long = self.jax.jit(lambda sets: [product(**one) for one in sets])
        short = self.jax.jit(lambda sets: [product(**one) for one in sets[:self.SHORT]])
        for chain in (long, short, long, short):
            self.wall_us(chain, sets)
        pairs = [(self.wall_us(long, sets), self.wall_us(short, sets)) for _ in range(count)]
        return sorted((one - other) / (len(sets) - self.SHORT) for one, other in pairs)

    def timed(self, problem):
        own = options(problem) | {"layout": problem.layout}
        if problem.out != problem.usual_out:
            own["out_dtype"] = self.dtypes[problem.out]
        product = lambda **arrays: self.module.matmul(**arrays, **own)  # noqa: E731: a closure
        sets = self.sets(problem, FIRST_LAUNCHES)
        self.jax.block_until_ready(sets)
        d = self.jax.jit(lambda one: product(**one))(sets[0])
        error = largest_error(problem, sets[0], d, self.host)
        first = statistics.median(self.differences(product, sets, 5))
        launches = max(1, min(64, math.ceil(SAMPLE_US / max(first, 1))))
        copies = range(launches + self.SHORT - len(sets))
        sets += [{name: self.copied(one) for name, one in sets[0].items()} for _ in copies]
        self.jax.block_until_ready(sets)
        return self.differences(product, sets, SAMPLES), error


# Rows ---------------------------------------------------------------------------------------------

def row(name, surface, problem):
    """The row of a problem."""
    try:
        times, error = surface.timed(problem)
    except Missing as why:
        return f'{name},"{problem.name}",,,,,{why}'
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0].replace('"', "'")
        return f'{name},"{problem.name}",,,,,"{why[:160]}"'
    us = ",".join(f"{one:.3f}" for one in (times[len(times) // 2], times[LOW], times[HIGH]))
    return f'{name},"{problem.name}",{us},{error:.3g},'


def main():
    folder, path, name = sys.argv[1:]
    sys.path.insert(1, folder)
    kinds = {"cupy": Cupy, "jax": Jax} | {f"torch {way}": lambda way=way: Torch(way)
                                          for way in ("eager", "operator", "compiled", "graphed")}
    if name not in kinds:
        sys.exit(f"`{name}` is no surface: choose one of {', '.join(kinds)}")
    try:
        surface = kinds[name]()
    except Missing as why:
        sys.exit(str(why))
    for problem in lists.read(path):
        print(row(name, surface, problem), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
