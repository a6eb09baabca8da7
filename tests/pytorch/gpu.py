"""Checks the PyTorch operators of an exported Python module on a GPU, and times them beside PyTorch. Results of eager,
compiled and graphed calls are held against products in float64. Prints a line for each check; the exit code is 1 if
one is wrong. Sections run in processes of their own, so that a fault of one leaves the others.

    gpu.py FOLDER [SECTION...]          sections: forward, functions, workspaces, matmul, backward, autocast, host,
                                        model; all without a name
    gpu.py --stand-in FOLDER [...]      on the host without a library, to check this script (see host.py)
"""

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time
import traceback

ARGUMENTS = [one for one in sys.argv[1:] if one != "--stand-in"]
IS_STAND_IN = len(ARGUMENTS) < len(sys.argv) - 1
CHILD = os.environ.get("GEMM_TUNED_SECTION")
# Most seconds of a section: torch.compile takes the larger part of them.
TIMEOUT = 900
# Unit roundoff of a result; operands of tf32 are rounded to 11 bits.
ROUNDOFF = {"f32": 2.0**-24, "tf32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "f64": 2.0**-53}
TYPES = ("f32", "tf32", "f16", "bf16")
# M, N, K and the batch of `bmm`: a large product, an odd one, a row, and more than one block in K.
SHAPES = [(512, 384, 256, 3), (77, 45, 33, 2), (1, 1024, 512, 4), (100, 72, 4096, 2)]
WAYS = ("eager", "compiled", "graphed")


def setup():
    """PyTorch and the operators, on the device of this run."""
    global torch, gemm_tuned, gemm_tuned_torch, ops, functional, DEVICE, DTYPES, ACTIVATIONS
    sys.path.insert(1, ARGUMENTS[0])
    if IS_STAND_IN:
        sys.argv[1:] = ARGUMENTS
        import host
    import torch
    import gemm_tuned
    import gemm_tuned_torch
    if IS_STAND_IN:
        host.on_host()
        host.library("bias", "gelu", "bias,relu")
    DEVICE = "cpu" if IS_STAND_IN else "cuda"
    ops, functional, ACTIVATIONS = torch.ops.gemm_tuned, torch.nn.functional, gemm_tuned_torch.ACTIVATIONS
    DTYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
              "i8": torch.int8}
    torch.manual_seed(1)


def wait():
    if not IS_STAND_IN:
        torch.cuda.synchronize()


failures = missing = 0


def row(name, check):
    """Prints a line for a check, which returns a text, or the error over its bound. That the library has no kernel is
    no fault, but is counted."""
    global failures, missing
    try:
        found = check()
        is_right = not isinstance(found, float) or found <= 1
        text = f"error/bound {found:.3f}" if isinstance(found, float) else found
    except gemm_tuned.NoKernelError:
        missing += 1
        is_right, text = True, "no kernel"
    except Exception as error:
        is_right, text = False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if os.environ.get("GEMM_TUNED_TRACEBACK"):
            traceback.print_exc()
    failures += not is_right
    print(f"{'     ' if is_right else 'WRONG'} {name:58} {text}", flush=True)


def set_type(name):
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")


def random(name, *shape):
    if name == "i8":
        return torch.randint(-128, 128, shape, dtype=torch.int8, device=DEVICE)
    return torch.randn(*shape, device=DEVICE).to(DTYPES[name])


def graphed(call, operands):
    """A call as it is replayed from a CUDA graph, after operands were replaced in place."""
    if IS_STAND_IN:
        return call(*operands)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(*operands)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = call(*operands)
    value.zero_()
    graph.replay()
    wait()
    return value.clone()


def by(way, call, operands):
    if way == "compiled":
        torch._dynamo.reset()
        return torch.compile(call, fullgraph=True)(*operands)
    return graphed(call, operands) if way == "graphed" else call(*operands)


def ratio(name, result, a, b, addend=None, activation=""):
    """The largest error over its bound; products of a and b in float64 are the reference."""
    x, y = a.double(), b.double()
    value, size = x @ y, x.abs() @ y.abs()
    if name == "i8":
        assert result.dtype == torch.int32, f"the result is of {result.dtype}, not of torch.int32"
        return float((result.double() - value).abs().max() != 0)
    assert result.dtype == DTYPES[name], f"the result is of {result.dtype}, not of {DTYPES[name]}"
    assert not result.isnan().any(), "the result has a NaN"
    error = (2.0**-22 * a.shape[-1]**0.5 + (2.0**-10 if name == "tf32" else 0)) * size
    if addend is not None:
        value, error = value + addend.double(), error + 2.0**-23 * addend.double().abs()
    unit = ROUNDOFF[name]
    if activation:
        # PyTorch may compute the activation, of the rounded value.
        value, error = ACTIVATIONS[activation](value), 1.2 * (error + 2 * unit * value.abs()) + 1e-6
    return float(((result.double() - value).abs() / (error + 2 * unit * value.abs() + 1e-30)).max())


# Sections -----------------------------------------------------------------------------------------

def forward():
    for name in (*TYPES, "i8"):
        set_type(name)
        for way in WAYS:
            for m, n, k, batch in SHAPES[:2] if way == "compiled" else SHAPES:
                at = f"{name} {way} {m}x{n}x{k}"
                a, b, weight = random(name, m, k), random(name, k, n), random(name, n, k)
                row(f"mm {at}", lambda: ratio(name, by(way, ops.mm, (a, b)), a, b))
                row(f"mm {at} nt", lambda: ratio(name, by(way, ops.mm, (a, weight.mT)), a, weight.mT))
                if way == "eager":
                    wide = random(name, m, 2 * k)
                    row(f"mm {at} tn", lambda: ratio(name, ops.mm(a.mT.contiguous().mT, b), a, b))
                    row(f"mm {at} padded rows", lambda: ratio(name, ops.mm(wide[:, :k], b), wide[:, :k], b))
                    row(f"mm {at} every second column", lambda: ratio(name, ops.mm(wide[:, ::2], b), wide[:, ::2], b))
                many_a, many_b = random(name, batch, m, k), random(name, batch, k, n)
                row(f"bmm {at} x{batch}", lambda: ratio(name, by(way, ops.bmm, (many_a, many_b)), many_a, many_b))
                if name == "i8":
                    continue
                bias, matrix = random(name, n), random(name, m, n)
                row(f"addmm {at} bias", lambda: ratio(name, by(way, ops.addmm, (bias, a, b)), a, b, bias))
                bad = torch.full_like(a, float("nan"))
                row(f"addmm {at} alpha 0 of NaN", lambda: float(not torch.equal(ops.addmm(matrix, bad, b, 1, 0), matrix)))
                row(f"addmm {at} matrix", lambda: ratio(name, by(way, ops.addmm, (matrix, a, b)), a, b, matrix))
                row(f"addmm {at} factors", lambda: ratio(
                    name, by(way, lambda *three: ops.addmm(*three, beta=0.5, alpha=2), (matrix, a, b)), a * 2, b, matrix / 2))
                for activation in ("", *ACTIVATIONS):
                    row(f"linear {at} bias {activation}", lambda: ratio(
                        name, by(way, lambda *three: ops.linear(*three, activation), (a, weight, bias)), a, weight.mT,
                        bias, activation))


def again(call):
    """The second of two calls, which takes what the first one decided."""
    def second(*operands):
        call(*operands)
        return call(*operands)
    return second


def functions():
    of = gemm_tuned_torch
    for name in TYPES:
        set_type(name)
        for way in ("eager", "graphed"):
            for m, n, k, batch in SHAPES:
                at = f"{name} {way} {m}x{n}x{k}"
                a, b, weight, bias = random(name, m, k), random(name, k, n), random(name, n, k), random(name, n)
                row(f"function mm {at}", lambda: ratio(name, by(way, again(of.mm), (a, b)), a, b))
                odd = random(name, m * k + 1)[1:].view(m, k)
                row(f"function mm {at} odd address", lambda: ratio(name, by(way, again(of.mm), (odd, b)), odd, b))
                many_a, many_b = random(name, batch, m, k), random(name, batch, k, n)
                row(f"function bmm {at}", lambda: ratio(name, by(way, again(of.bmm), (many_a, many_b)), many_a, many_b))
                row(f"function addmm {at}", lambda: ratio(
                    name, by(way, again(lambda *three: of.addmm(*three, alpha=2)), (bias, a, b)), a * 2, b, bias))
                row(f"function linear {at}", lambda: ratio(
                    name, by(way, again(lambda *three: of.linear(*three, "relu")), (a, weight, bias)), a, weight.mT, bias,
                    "relu"))
                # Values and streams may change between calls.
                row(f"function linear {at} streams", lambda: max(ratio(name, *one) for one in on_streams(a, weight, bias)))


def on_streams(a, weight, bias):
    """Results of one product of several values on two streams, with their operands."""
    found = []
    streams = [contextlib.nullcontext()] * 2 if IS_STAND_IN else [torch.cuda.stream(torch.cuda.Stream()) for _ in range(2)]
    for _ in range(3):
        for stream in streams:
            wait()
            with stream:
                x = torch.randn_like(a)
                found.append((gemm_tuned_torch.linear(x, weight, bias), x, weight.mT, bias))
    wait()
    return found


def workspaces():
    """Products whose kernels need a workspace, by threads that share a stream, and beside a graph that is replayed."""
    set_type("f32")
    pairs = [(random("f32", 64, 8192), random("f32", 8192, 64)) for _ in range(8)]
    expected = [gemm_tuned.matmul(a, b) for a, b in pairs]

    def differing(results):
        wait()
        count = sum(not torch.equal(one, own) for own, several in zip(expected, results) for one in several)
        assert count == 0, f"{count} products differ"
        return "equal"

    def by_threads():
        with concurrent.futures.ThreadPoolExecutor(len(pairs)) as pool:
            return differing(pool.map(lambda pair: [gemm_tuned.matmul(*pair) for _ in range(100)], pairs))

    def beside_a_graph():
        side, results = torch.cuda.Stream(), []
        side.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            captured = [gemm_tuned.matmul(a, b) for a, b in pairs]
        for _ in range(50):
            with torch.cuda.stream(side):
                graph.replay()
            results += [[gemm_tuned.matmul(a, b) for a, b in pairs]]
        return differing(zip(*results, captured))

    row("workspaces of threads on one stream", by_threads)
    if not IS_STAND_IN:
        row("workspaces beside a graph", beside_a_graph)
    call = next(iter(gemm_tuned._calls.values()))
    row("workspaces", lambda: f"{call.workspace} bytes, reserved for {sum(gemm_tuned._reserved.values())} streams")


def finished_ratio(name, result, a, b, out, scales=None, mul=None):
    """The same for the operator matmul: of scaled products, and of those with silu,mul."""
    assert result.dtype == DTYPES[out], f"the result is of {result.dtype}, not of {DTYPES[out]}"
    assert not result.isnan().any(), "the result has a NaN"
    x, y, unit = a.double(), b.double(), ROUNDOFF[out]
    value, rate = x @ y, 2.0**-22 * a.shape[-1]**0.5 + (2.0**-10 if name == "tf32" else 0)
    error = rate * (x.abs() @ y.abs())
    if scales is not None:
        value = value * scales["row_scale"].double()[:, None] * scales["col_scale"].double()
        error = 2.0**-22 * value.abs()
    if mul is not None:
        # PyTorch may compute it, of the rounded value.
        error = 1.2 * (error + 2 * unit * value.abs()) + 1e-6
        value, error = functional.silu(value) * mul.double(), error * mul.double().abs()
    # float16 has steps of 2^-24 near 0.
    least = 2.0**-24 if out == "f16" else 1e-30
    return float(((result.double() - value).abs() / (error + 2 * unit * value.abs() + least)).max())


def matmul():
    for way in WAYS:
        for m, n, k, batch in SHAPES[:2] if way == "compiled" else SHAPES:
            for name in TYPES:
                set_type(name)
                at = f"{name} {way} {m}x{n}x{k}"
                a, b, weight, other = random(name, m, k), random(name, k, n), random(name, n, k), random(name, m, n)
                gated = lambda a, b, mul: ops.matmul(a, b, mul=mul, epilogue="silu,mul")  # noqa: E731
                for layout, right in (("nn", b), ("nt", weight.mT)):
                    row(f"matmul {at} {layout} silu,mul", lambda: finished_ratio(
                        name, by(way, gated, (a, right, other)), a, right, name, mul=other))
                many = random(name, batch, m, k)
                row(f"matmul {at} x{batch} silu,mul", lambda: finished_ratio(
                    name, by(way, gated, (many, b, other)), many, b, name, mul=other))
            a, b = random("f16", m, k), random("f16", n, k).mT
            row(f"matmul f16 to f32 {way} {m}x{n}x{k}", lambda: finished_ratio(
                "f16", by(way, lambda *two: ops.matmul(*two, out_dtype=torch.float32), (a, b)), a, b, "f32"))
            a, b = random("i8", m, k), random("i8", n, k).mT
            scales = {"row_scale": random("f32", m) / 64, "col_scale": random("f32", n) / 64}
            scaled = lambda a, b, rows, columns: ops.matmul(  # noqa: E731
                a, b, row_scale=rows, col_scale=columns, epilogue="row-scale,col-scale", out_dtype=torch.float16)
            row(f"matmul i8 to f16 {way} {m}x{n}x{k} scales", lambda: finished_ratio(
                "i8", by(way, scaled, (a, b, *scales.values())), a, b, "f16", scales))


def backward():
    for name in TYPES:
        set_type(name)
        for way in ("eager", "compiled"):
            for m, n, k, _ in SHAPES[:2]:
                for activation in ("", *ACTIVATIONS):
                    row(f"linear backward {name} {way} {m}x{n}x{k} {activation}", lambda: gradients(
                        name, way, [random(name, m, k), random(name, n, k), random(name, n)], activation))


def gradients(name, way, operands, activation):
    """The error of gradients over three times that of PyTorch in the same type, and a few roundings. In the norm: a
    rounding that changes the sign of a value turns a whole element of the gradient of relu on or off."""
    def of(call, tensors):
        tensors = [one.detach().clone().requires_grad_() for one in tensors]
        call(*tensors).backward(weight_of.to(tensors[0].dtype))
        return [one.grad for one in tensors]

    def reference(x, weight, bias):
        value = functional.linear(x, weight, bias)
        return ACTIVATIONS[activation](value) if activation else value

    weight_of = torch.randn(operands[0].shape[0], operands[1].shape[0], device=DEVICE, dtype=torch.float64)
    own = lambda *three: ops.linear(*three, activation)  # noqa: E731
    if way == "compiled":
        torch._dynamo.reset()
        own = torch.compile(own, fullgraph=True)
    exact, theirs, found = of(reference, [one.double() for one in operands]), of(reference, operands), of(own, operands)
    unit = 2.0**-11 if name == "tf32" else ROUNDOFF[name]
    worst = 0.0
    for right, their, mine in zip(exact, theirs, found):
        allowed = 3 * (their.double() - right).norm() + 8 * unit * right.norm()
        worst = max(worst, float((mine.double() - right).norm() / allowed))
    return worst


def autocast():
    set_type("f32")
    # PyTorch keys its cache of compiled graphs by shapes and not by the dtype of autocast: 2.11 takes the graph of f16 for bf16
    # where shapes are the same, of torch.nn.functional.linear too. So each dtype has a width of its own.
    for name, width in (("f16", 32), ("bf16", 48)):
        a, weight, bias = (torch.randn(*shape, device=DEVICE) for shape in ((64, 128), (width, 128), (width,)))
        for way in ("eager", "compiled"):
            def check():
                with torch.autocast(DEVICE, dtype=DTYPES[name]):
                    result = by(way, ops.linear, (a, weight, bias))
                return ratio(name, result, *(one.to(DTYPES[name]) for one in (a, weight.mT, bias)))
            row(f"linear autocast {name} {way}", check)


def microseconds(call, count=2000):
    """Host time of a call: calls are queued and nothing waits for them, and the GPU is faster than the host."""
    for _ in range(50):
        call()
    best = float("inf")
    for _ in range(5):
        wait()
        start = time.perf_counter()
        for _ in range(count // 5):
            call()
        best = min(best, (time.perf_counter() - start) / (count // 5))
    wait()
    return best * 1e6


def host_time():
    set_type("f32")
    for name in ("f32", "bf16"):
        a, b, bias = random(name, 64, 64), random(name, 64, 64), random(name, 64)
        own_linear, their_linear = (torch.nn.Linear(64, 64, device=DEVICE).to(DTYPES[name]) for _ in range(2))
        own_linear.__class__ = gemm_tuned_torch.TunedLinear
        for what, own, theirs in (
            ("matmul of the module", lambda: gemm_tuned.matmul(a, b), lambda: torch.mm(a, b)),
            ("mm", lambda: gemm_tuned_torch.mm(a, b), lambda: torch.mm(a, b)),
            ("mm, the operator", lambda: ops.mm(a, b), lambda: torch.mm(a, b)),
            ("linear", lambda: gemm_tuned_torch.linear(a, b, bias), lambda: functional.linear(a, b, bias)),
            ("linear, the operator", lambda: ops.linear(a, b, bias), lambda: functional.linear(a, b, bias)),
            ("TunedLinear", lambda: own_linear(a), lambda: their_linear(a)),
        ):
            with torch.no_grad():
                row(f"host time {name} {what}", lambda: f"{microseconds(own):.1f} us, PyTorch {microseconds(theirs):.1f} us")
        row(f"host time {name} TunedLinear, forward and backward", lambda: (
            f"{microseconds(lambda: own_linear(a).backward(a)):.1f} us, "
            f"PyTorch {microseconds(lambda: their_linear(a).backward(a)):.1f} us"))


def tokens_per_second(call, x):
    for _ in range(5):
        call(x)
    times = []
    for _ in range(20):
        wait()
        start = time.perf_counter()
        call(x)
        wait()
        times.append(time.perf_counter() - start)
    return x.shape[0] * x.shape[1] / sorted(times)[len(times) // 2]


def model():
    from transformer import transformer
    layers, width, heads, batch, length = (1, 64, 4, 2, 16) if IS_STAND_IN else (4, 1024, 16, 8, 512)
    exact = transformer(layers, width, heads).to(DEVICE, torch.float64)
    x = torch.randn(batch, length, width, device=DEVICE, dtype=torch.float64)
    with torch.no_grad():
        right = exact(x)
    for name in TYPES:
        set_type(name)
        own, small = transformer(layers, width, heads).to(DEVICE), x.to(DTYPES[name])
        own.load_state_dict(exact.state_dict())
        own.to(DTYPES[name])
        for way in ("eager", "compiled", "reduce-overhead"):
            def call():
                if way == "eager":
                    return own
                torch._dynamo.reset()
                options = {} if way == "compiled" or IS_STAND_IN else {"mode": way}
                return torch.compile(own, fullgraph=True, **options)

            def check():
                error, speed = {}, {}
                for kind in ("PyTorch", "patched"):
                    with gemm_tuned.patch_linear(own) if kind == "patched" else contextlib.nullcontext(), torch.no_grad():
                        run = call()
                        error[kind] = float((run(small).double() - right).abs().max())
                        speed[kind] = tokens_per_second(run, small)
                bound = 2 * error["PyTorch"] + 1e-5
                assert error["patched"] <= bound, f"error {error['patched']:.2e}, PyTorch {error['PyTorch']:.2e}"
                return (f"{speed['patched']:.0f} tokens/s, PyTorch {speed['PyTorch']:.0f} (x"
                        f"{speed['patched'] / speed['PyTorch']:.3f}); error {error['patched']:.1e}, {error['PyTorch']:.1e}")
            row(f"transformer {name} {way}", check)


SECTIONS = {"forward": forward, "functions": functions, "workspaces": workspaces, "matmul": matmul,
            "backward": backward, "autocast": autocast, "host": host_time, "model": model}


def main():
    chosen = ARGUMENTS[1:] or list(SECTIONS)
    unknown = [one for one in chosen if one not in SECTIONS]
    if not ARGUMENTS or unknown:
        sys.exit(__doc__ if not unknown else f"unknown section {unknown[0]}: choose from {', '.join(SECTIONS)}")
    if CHILD:
        setup()
        SECTIONS[CHILD]()
        print(f"{failures} wrong, {missing} without a kernel")
        sys.exit(failures > 0)
    wrong = []
    for section in chosen:
        print(f"== {section}", flush=True)
        try:
            code = subprocess.run([sys.executable, "-B", *sys.argv], env={**os.environ, "GEMM_TUNED_SECTION": section},
                                  timeout=TIMEOUT).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {TIMEOUT} s"
        if code != 0:
            wrong.append(f"{section} ({code})")
    print("right" if not wrong else f"wrong: {', '.join(wrong)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
