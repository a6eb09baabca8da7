"""Kernel Tuner's search over the configurations of the family `blocktile`: same kernels, same space, same
wall time as `gemm-tune --family blocktile`, another tuner.

    kernel_tuner_blocktile.py SHAPE --strategy NAME --seconds S [--gemm-tune PATH] [--out FILE]

A rival of gemm-tune and no part of it. It needs the package kernel_tuner (1.5.0 was read) and
cuda-bindings. One process is one search: its result is printed as JSON, with the best configuration as
`gemm-tune compare --config` takes it. The time includes the search space, not starting Python. What
Kernel Tuner measures is a mean of 7 launches on operands that stay in the L2 cache where they fit; to
compare winners, let gemm-tune time them in turn.

Strategies are Kernel Tuner's by name. Its default is `brute_force`, which goes through the space in order
and refuses a time limit; here it is cut after the time, in a corner of the space. `random_sample` is the
same without the order, and the fair stand-in for a default. `hybrid_vndx` is the best of its strategies
in replays of public spaces of GEMM kernels (Xgemm of CLBlast at 4096 x 4096).

Where the rules leave a choice it is made in Kernel Tuner's favour: what it would spend on waiting for
gemm-tune to render a kernel is given back to it, it is not asked to check results, and a fault of its
version 1.5.0 that ends `hybrid_vndx` is mended.
"""

import argparse
import ast
import json
import pathlib
import random
import subprocess
import sys
import time
import tomllib
import warnings

import numpy

FAMILY = "blocktile"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# As src/compile/compiler.rs has it; the architecture is Kernel Tuner's own choice.
COMPILER_OPTIONS = ["-std=c++17"]
SAMPLE = 5  # configurations that --dry-run renders


class Space:
    """A search-space file for one problem, its expressions as plain Python of parameters alone.

    The template engine's expressions are Python's but for filters: `a | ceil_div(by=b)`.
    """

    FILTERS = {"ceil_div": "-(-({0}) // ({1}))", "at_most": "min({0}, {1})", "at_least": "max({0}, {1})"}

    def __init__(self, file, names):
        with open(file, "rb") as text:
            space = tomllib.load(text)
        self.derived, self.names = space["derived"], names
        self.parameters = space["parameters"]
        self.restrictions = [self.plain(constraint["require"]) for constraint in space["constraints"]]
        (kernel,) = space["kernels"]
        if "dynamic_shared_bytes" in kernel or "workspaces" in space:
            raise ValueError(f"{file} has more than one launch with static shared memory")
        self.entry = kernel["entry"]
        self.grid, self.block = (
            [self.function(str(size)) for size in kernel[what]] + [lambda _: 1] * (3 - len(kernel[what]))
            for what in ("grid", "block"))

    def plain(self, text):
        return ast.unparse(self._resolved(ast.parse(text, mode="eval").body))

    def function(self, text):
        code = compile(self.plain(text), text, "eval")
        # The repository's own text, and nothing but arithmetic.
        return lambda values: eval(code, {"min": min, "max": max}, dict(values))  # noqa: S307

    def _resolved(self, node):
        space = self

        class Resolve(ast.NodeTransformer):
            def visit_Name(self, name):
                if name.id in space.derived:
                    return self.visit(ast.parse(space.derived[name.id], mode="eval").body)
                return ast.Constant(space.names[name.id]) if name.id in space.names else name

            def visit_BinOp(self, operation):
                if not isinstance(operation.op, ast.BitOr):
                    return self.generic_visit(operation)
                filtered, used = operation.left, operation.right
                sides = [ast.unparse(self.visit(side)) for side in (filtered, used.keywords[0].value)]
                return ast.parse(space.FILTERS[used.func.id].format(*sides), mode="eval").body

        return Resolve().visit(node)


class GemmTune:
    """What the program says of a shape, and its kernels."""

    def __init__(self, program, shape, spaces):
        self.program, self.problem, self.spaces = program, problem_options(shape), spaces
        self.render_s = 0.0

    def call(self, *arguments):
        command = [self.program, *arguments, *self.problem, "--family", FAMILY]
        if self.spaces:
            command += ["--spaces", self.spaces]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"{command} ends with {done.returncode}")
        return done.stdout

    def space(self):
        """The space, and how many configurations of it are legal, by the program's own count."""
        said = json.loads(self.call("tune", "--dry-run", "--json", "-q"))
        (run,) = said["dry_run"]
        problem = run["problem"]
        m, n, k, layout = problem["m"], problem["n"], problem["k"], problem["layout"]
        names = {name: value for name, value in said["device"].items() if type(value) is int}
        # What A, B and C are in memory: row-major and packed.
        names.update(M=m, N=n, K=k, batch=problem["batch"], lda=m if layout[0] == "t" else k,
                     ldb=k if layout[1] == "t" else n, ldc=n)
        folder = pathlib.Path(self.spaces) if self.spaces else REPOSITORY / "search-spaces"
        return Space(folder / f"{FAMILY}.toml", names), run["families"][0]["legal"]

    def render(self, values):
        """CUDA of a configuration. The device is not asked: its context would take longer than all else."""
        begin = time.perf_counter()
        source = self.call("inspect", "--config", f"{FAMILY}:{set_text(values)}", "--device", "cpu", "-q")
        self.render_s += time.perf_counter() - begin
        return source


def problem_options(shape):
    """The program's options for a line of its --shapes."""
    extents, *rest = shape.split()
    return ["--shape", extents, *(part for word in rest for part in (
        ("--batch", word[1:]) if word.startswith("x") else ("--layout", word)))]


def set_text(values):
    return ",".join(f"{name}={str(value).lower()}" for name, value in values.items())


class InOrder:
    """Kernel Tuner's `brute_force` with an end: its own refuses `time_limit`."""

    @staticmethod
    def tune(searchspace, runner, options):
        return [result for result in runner.run(searchspace.sorted_list(), options) if result]


class Adapted:
    """What Kernel Tuner has to be told that its interface has no way for, and what it does not tell."""

    def __init__(self, space):
        from kernel_tuner import interface, util

        adapted, self.budget, self.configurations, self.space_s = self, None, 0, 0.0

        class Budget(util.TuningBudget):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                adapted.budget = self

        class Searchspace(interface.Searchspace):
            def __init__(self, *arguments, **options):
                begin = time.perf_counter()
                super().__init__(*arguments, **options)
                adapted.configurations, adapted.space_s = self.size, time.perf_counter() - begin

            def get_neighbors_indices_no_cache(self, *arguments):
                # kernel_tuner 1.5.0 appends to this list where one configuration is the other's neighbour
                # but not the other way round; it is an array, and `hybrid_vndx` breaks after some seconds.
                return [int(index) for index in super().get_neighbors_indices_no_cache(*arguments)]

        util.TuningBudget, interface.Searchspace = Budget, Searchspace
        # It takes a block's size from parameters with its names alone. A further parameter that follows
        # from others would leave hardly any configuration with a legal neighbour.
        util.get_thread_block_dimensions = lambda values, _=None: tuple(size(values) for size in space.block)
        warnings.filterwarnings("ignore", message="None of the tunable parameters specify thread block")


def operands(names):
    """The arguments that templates/parts/arguments.cuh.tera names, for packed matrices one after the other."""
    values = numpy.random.default_rng(0)
    m, n, k, batch = (names[name] for name in ("M", "N", "K", "batch"))
    a, b = (values.uniform(-1, 1, size).astype(numpy.float32) for size in ((batch, m, k), (batch, k, n)))
    return [a, b, numpy.zeros((batch, m, n), numpy.float32),
            *map(numpy.int32, (m, n, k, batch, names["lda"], names["ldb"], names["ldc"])),
            *map(numpy.int64, (m * k, k * n, m * n)), *map(numpy.float32, (1, 0))]


def search(gemm_tune, space, strategy, seconds):
    """Lets Kernel Tuner search, and says what it found."""
    import kernel_tuner

    adapted = Adapted(space)

    def parameters(values):
        return {name: values[name] for name in space.parameters}

    def source(values):
        before = gemm_tune.render_s
        text = gemm_tune.render(parameters(values))
        adapted.budget.add_time(seconds=before - gemm_tune.render_s)
        return text

    arguments = operands(space.names)
    begin = time.perf_counter()
    results, environment = kernel_tuner.tune_kernel(
        space.entry, source, lambda values: tuple(size(values) for size in space.grid), arguments,
        dict(space.parameters), grid_div_x=[], grid_div_y=[], grid_div_z=[], restrictions=space.restrictions,
        # Through cuda-bindings: with its CuPy backend kernel_tuner 1.5.0 does not start under CuPy 14.
        lang="NVCUDA", compiler_options=COMPILER_OPTIONS, defines={}, quiet=True,
        strategy=InOrder if strategy == "brute_force" else strategy,
        strategy_options={"time_limit": seconds})
    wall_s = time.perf_counter() - begin
    timed = [result for result in results if "__error__" not in result]
    if not timed:
        raise RuntimeError(f"none of {len(results)} configurations ran")
    best = min(timed, key=lambda result: result["time"])
    parts = ("compile", "benchmark", "strategy", "framework")
    return {"configurations": adapted.configurations, "space_s": adapted.space_s, "wall_s": wall_s,
            "render_s": gemm_tune.render_s,
            "seconds_in": {part: environment.get(f"total_{part}_time", 0) / 1000 for part in parts},
            "evaluated": len({set_text(parameters(result)) for result in timed}),
            "failed": len(results) - len(timed), "best_us": float(best["time"]) * 1000,
            "parameters": parameters(best), "config": f"{FAMILY}:{set_text(parameters(best))}"}


def dry_run(gemm_tune, space):
    """What can be tried without a GPU: the size of the space, and kernels from all over it."""
    from kernel_tuner.searchspace import Searchspace

    begin = time.perf_counter()
    found = Searchspace(dict(space.parameters), space.restrictions, 1024)
    space_s = time.perf_counter() - begin
    for values in found.get_random_sample(SAMPLE):
        gemm_tune.render(dict(zip(space.parameters, values)))
    return {"configurations": found.size, "space_s": space_s, "render_s_each": gemm_tune.render_s / SAMPLE}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", help="as a line of --shapes: MxNxK, layout and batch")
    parser.add_argument("--strategy", default="random_sample")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--gemm-tune", default="gemm-tune", help="the program")
    parser.add_argument("--spaces", help="folder of search spaces [default: the repository's, built in]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="file for the result, also for a failure's message")
    parser.add_argument("--dry-run", action="store_true", help="count and render, no GPU needed")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    numpy.random.seed(arguments.seed)
    result = {"tuner": "kernel_tuner", "shape": arguments.shape, "strategy": arguments.strategy,
              "seconds": arguments.seconds, "seed": arguments.seed}
    try:
        gemm_tune = GemmTune(arguments.gemm_tune, arguments.shape, arguments.spaces)
        space, legal = gemm_tune.space()
        result["legal"] = legal
        result |= dry_run(gemm_tune, space) if arguments.dry_run else search(
            gemm_tune, space, arguments.strategy, arguments.seconds)
        if result["configurations"] != legal:
            result["message"] = f"not the same space: {result['configurations']} and {legal} configurations"
    except Exception as why:  # noqa: BLE001: the driver makes a row of it
        result["message"] = f"{type(why).__name__}: {why}"[:300]
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text + "\n")
    sys.exit("message" in result)


if __name__ == "__main__":
    main()
