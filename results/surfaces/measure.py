"""Times products of an exported Python module through one of its surfaces, by the tuner's protocol. README.md says how.

    measure.py FOLDER PROBLEMS SURFACE

FOLDER is what `gemm-tune export --format python` wrote. SURFACE is `torch eager`, `torch operator`, `torch compiled`,
`torch graphed`, `cupy` or `jax`. Prints a row for each problem, as measure.c does.
"""

import contextlib
import ctypes
import gc
import math
import os
import subprocess
import sys
import tempfile

import numpy
import problems as lists
from operands import Missing, largest_error, on_host, set_bytes, shapes

SAMPLES, FIRST_LAUNCHES, MAX_LAUNCHES, MAX_SETS, MAX_LATE = 31, 3, 256, 256, 100
# Most products of a function that is compiled.
MAX_COMPILED = 64
# Ranks of the samples in order that bound the median of SAMPLES with 95 %.
LOW, HIGH = 9, 21
# Launches of a sample take so long together, as in a final of the tuner.
SAMPLE_US = 1000.0
# Most bytes that are overwritten before a sample: for 2 ms on an H200.
MAX_FLUSHED = 1 << 33
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")


# Surfaces -----------------------------------------------------------------------------------------

class Surface:
    """Arrays of a package, and the calls of a surface. Samples are taken between events."""

    most_flushed, most_launches = MAX_FLUSHED, MAX_LAUNCHES

    def sets(self, problem):
        """Sets of operands that launches rotate through: together more than twice the L2 cache. They have the same
        numbers."""
        first = {name: self.array(value, shapes(problem)[name][1]) for name, value in on_host(problem).items()}
        copies = range(min(MAX_SETS, 2 * self.l2_bytes // set_bytes(problem) + 1) - 1)
        return [first, *({name: self.copied(value) for name, value in first.items()} for _ in copies)]

    def launcher(self, call, arguments, launches):
        """A function that queues so many products. As many results as sets are kept, so that results rotate too."""
        results = [None] * len(arguments)

        def run():
            for turn in range(launches):
                place = turn % len(arguments)
                results[place] = call(*arguments[place])
            return results
        return run

    # What queues a few products, whose time says how many a sample has.
    first_launcher = launcher

    def own_operands(self, arguments, launches):
        """Operands for each launch: a compiler computes a product of the same operands once."""
        missing = range(launches - len(arguments))
        return [*arguments[:launches], *(tuple(self.copied(one) for one in arguments[0]) for _ in missing)]

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
            self.flush_bytes = min(self.most_flushed, 2 * self.flush_bytes)
            if late > MAX_LATE:
                raise Missing("the host is slower than the GPU")
        return sorted(taken)

    def timed(self, problem):
        """The times of a problem, and the largest error over its bound."""
        sets = self.sets(problem)
        with self.settings(problem):
            call, arguments = self.prepared(problem, sets)
            self.flush_bytes = 2 * self.l2_bytes
            first = self.samples(self.first_launcher(call, arguments, FIRST_LAUNCHES), FIRST_LAUNCHES, 3)[1]
            launches = max(1, min(self.most_launches, math.ceil(SAMPLE_US / first)))
            run = self.launcher(call, arguments, launches)
            d = run()[0]
            self.wait()
            error = largest_error(problem, sets[0], d, self.host)
            del d
            return self.samples(run, launches, SAMPLES), error


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
        self.most_launches = MAX_COMPILED if way == "compiled" else MAX_LAUNCHES
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
        matmul, own = (self.module if of is self.functions else of).matmul, options(problem)
        if of is not self.functions:
            # Operators take tf32 where the settings of PyTorch allow it.
            own.pop("compute", None)
        if problem.out != problem.usual_out:
            own["out_dtype"] = self.dtypes[problem.out]
        names = tuple(name for name in shapes(problem) if name not in ("a", "b"))
        return (lambda a, b, *others: matmul(a, b, **own, **dict(zip(names, others)))), ("a", "b", *names)

    def prepared(self, problem, sets):
        call, names = self.call_of(problem)
        arguments = []
        for one in sets:
            a = one["a"].mT if problem.layout[0] == "t" else one["a"]
            b = one["b"].mT if problem.layout[1] == "t" else one["b"]
            own = one | {"a": a, "b": b, "weight": one["b"]}
            arguments.append(tuple(own[name] for name in names))
        return call, arguments

    def launcher(self, call, arguments, launches):
        if self.way == "compiled":
            # One function has all products of a sample: a call takes the host 100 us.
            self.torch._dynamo.reset()
            chain = self.torch.compile(lambda sets: [call(*one) for one in sets], fullgraph=True, dynamic=False)
            sets = self.own_operands(arguments, launches)
            chain(sets)
            return lambda: chain(sets)
        run = super().launcher(call, arguments, launches)
        if self.way != "graphed":
            return run
        run()
        self.wait()
        return self.recorded(run)

    def recorded(self, run):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            results = run()

        def replay():
            graph.replay()
            return results
        return replay

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
    """A sample is a jitted function with all its products. Calls of jax_events.cc before and after it record events on the
    stream of XLA. Each function has a result of the one before as an operand, so that the device has them in this order."""

    FLUSHED, L2_BYTES = 1 << 30, 1 << 26
    # Each GiB is overwritten by a call of its own, which takes the GPU longer than the host.
    most_flushed, most_launches = 1 << 34, MAX_COMPILED

    def __init__(self):
        import gemm_tuned_jax
        import jax
        self.use(jax, gemm_tuned_jax)
        if jax.default_backend() != "gpu":
            raise Missing("JAX finds no GPU")
        self.events = self.built(tempfile.mkdtemp())

    def use(self, jax, module):
        from jax import numpy as jnp
        self.jax, self.jnp, self.module, self.l2_bytes = jax, jnp, module, self.L2_BYTES
        self.dtypes = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i8": jnp.int8}
        self.overwrite = jax.jit(lambda value: jnp.full(self.FLUSHED, value, jnp.uint8))
        token = jax.ShapeDtypeStruct((1,), jnp.uint8)
        self.begin, self.end = (
            jax.jit(lambda after, is_last=is_last: jax.ffi.ffi_call("surfaces_record", token, has_side_effect=True)(
                after, is_last=numpy.int64(is_last))) for is_last in (0, 1))

    def built(self, folder):
        """Compiles the calls that record events, and makes them known to XLA."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_events.cc")
        library = os.path.join(folder, "libjax_events.so")
        words = [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-shared", "-fPIC", "-isystem", self.jax.ffi.include_dir(), source]
        subprocess.run([*words, "-o", library, "-ldl"], check=True)
        events = ctypes.CDLL(library)
        events.surfaces_us.restype = ctypes.c_double
        self.jax.ffi.register_ffi_target("surfaces_record", self.jax.ffi.pycapsule(events.surfaces_record), platform="CUDA")
        return events

    def array(self, value, kind):
        return self.jnp.asarray(value).astype(self.dtypes[kind])

    def copied(self, array):
        return self.jnp.array(array, copy=True)

    def host(self, array):
        return numpy.asarray(array).astype(numpy.float64)

    def wait(self):
        pass

    def settings(self, problem):
        return contextlib.nullcontext()

    def prepared(self, problem, sets):
        own = options(problem) | {"layout": problem.layout}
        if problem.out != problem.usual_out:
            own["out_dtype"] = self.dtypes[problem.out]
        names = tuple(sets[0])
        product = lambda *arrays: self.module.matmul(**dict(zip(names, arrays)), **own)  # noqa: E731: a closure
        return product, [tuple(one.values()) for one in sets]

    def launcher(self, call, arguments, launches):
        # A token that nothing reads is an operand all the same.
        chain = self.jax.jit(lambda token, sets: [call(*one) for one in sets], keep_unused=True)
        sets = self.own_operands(arguments, launches)
        run = lambda token=self.jnp.zeros(1, self.jnp.uint8): chain(token, sets)  # noqa: E731: a closure
        self.jax.block_until_ready((sets, run()))
        return run

    first_launcher = launcher

    def sample(self, run):
        for _ in range(math.ceil(self.flush_bytes / self.FLUSHED)):
            overwritten = self.overwrite(numpy.uint8(0x5A))
        results = run(self.begin(overwritten))
        self.jax.block_until_ready((self.end(results[-1]), results))
        us = self.events.surfaces_us()
        if us <= 0:
            raise Missing("the events have no time")
        return us, bool(self.events.surfaces_is_late())


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
