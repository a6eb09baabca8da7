"""Multiplies PyTorch tensors of several types and with epilogues on a GPU through an exported Python module, and holds
the results against products in float64. The module has kernels for the CASES, which tests/gpu/artifacts.rs tunes.

    types.py FOLDER
"""

import sys

sys.path.insert(0, sys.argv[1])
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402

# Dtype of a and b, options of matmul, whether b is stored by columns.
CASES = [
    (torch.bfloat16, {"epilogue": "bias,gelu"}, False),
    (torch.float16, {"out_dtype": torch.float32}, True),
    (torch.float32, {"compute": "tf32", "epilogue": "silu,mul"}, True),
    (torch.int8, {}, True),
    (torch.float32, {"epilogue": "row-scale,residual"}, False),
]
# Tuned, and others; a batch.
SHAPES = [(512, 384, 256), (1000, 1016, 520), (77, 45, 33), (3, 128, 96, 160)]
# Products that follow each other, how often they are repeated, and their rows and columns.
LINKS, REPLAYS = 24, 20
CHAINED = [(512, 384), (64, 1024), (3, 2048), (1000, 520), (77, 45)]
# Half a unit in the last place of the result, and the same of operands that are rounded.
ULP = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24, torch.int32: 0}


def matrix(dtype, *extents):
    if dtype == torch.int8:
        return torch.randint(-128, 128, extents, dtype=dtype, device="cuda")
    return torch.randn(*extents, device="cuda").to(dtype)


def expected(value, epilogue, operands, error):
    """The epilogue in float64, and the error after it."""
    for operation in filter(None, epilogue.split(",")):
        operand = operands.get(operation.replace("-", "_"))
        operand = None if operand is None else operand.double()
        if operation == "bias":
            value = value + operand[..., None, :]
        elif operation == "residual":
            value = value + operand
        elif operation == "row-scale":
            value, error = value * operand[..., :, None], error * abs(operand[..., :, None])
        elif operation == "mul":
            value, error = value * operand, error * abs(operand)
        else:
            value = getattr(torch.nn.functional, operation)(value)
            error = 1.2 * error + 1e-6
    return value, error


def check(dtype, options, by_columns, shape):
    *batch, m, n, k = shape
    a = matrix(dtype, *batch, m, k)
    b = matrix(dtype, *batch, n, k).mT if by_columns else matrix(dtype, *batch, k, n)
    epilogue = options.get("epilogue", "")
    of_d = options.get("out_dtype", torch.int32 if dtype == torch.int8 else dtype)
    shapes = {"bias": (n,), "row_scale": (m,), "residual": (m, n), "mul": (m, n)}
    words = [word.replace("-", "_") for word in epilogue.split(",")]
    operands = {name: matrix(torch.float32 if name == "row_scale" else of_d, *batch, *own)
                for name, own in shapes.items() if name in words}
    c = matrix(of_d, *batch, m, n + 8)[..., :n] if of_d != torch.int32 else None
    beta = 0.5 if c is not None else 0
    d = gemm_tuned.matmul(a, b, beta=beta, c=c, **options, **operands)
    assert d.dtype == of_d, d.dtype
    x, y = a.double(), b.double()
    size = abs(x) @ abs(y)
    value = x @ y
    error = (2.0**-22 * k**0.5 + (2.0**-10 if options.get("compute") == "tf32" else 0)) * size
    if dtype == torch.int8:
        error = 0 * size
    if c is not None:
        value, error = value + beta * c.double(), error + 2.0**-23 * abs(c.double())
    value, error = expected(value, epilogue, operands, error)
    ratio = float((abs(d.double() - value) / (error + 2 * ULP[of_d] * abs(value) + 1e-30)).max())
    words = [str(dtype), *map(str, options.values()), "x".join(map(str, shape))]
    print(f"{' '.join(words):60} error/bound {ratio:.3f}", flush=True)
    return ratio <= 1


def check_chain(dtype, options, by_columns, m, n):
    """Whether products that read each other's results have the same bits in a CUDA graph as one at a time: a launch may
    begin before the one before it ends, and waits for it."""
    words = [word.replace("-", "_") for word in options.get("epilogue", "").split(",")]
    shapes = {"bias": (n,), "mul": (m, n)}
    operands = {name: matrix(dtype, *own) for name, own in shapes.items() if name in words}
    weights = [matrix(dtype, n, n) / n**0.5 for _ in range(LINKS)]
    results = [matrix(dtype, m, n), *(torch.empty(m, n, dtype=dtype, device="cuda") for _ in range(LINKS))]

    def multiply(link):
        b = weights[link].mT if by_columns else weights[link]
        gemm_tuned.matmul(results[link], b, out=results[link + 1], **options, **operands)

    for link in range(LINKS):
        multiply(link)
        torch.cuda.synchronize()
    expected = results[-1].clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for link in range(LINKS):
            multiply(link)
    same = True
    for _ in range(REPLAYS):
        for result in results[1:]:
            result.fill_(float("nan"))
        graph.replay()
        same &= torch.equal(results[-1], expected)
    print(f"{LINKS} products of {m}x{n}x{n} {dtype} {' '.join(options.values())} in a graph: same bits {same}", flush=True)
    return same


if __name__ == "__main__":
    torch.manual_seed(1)
    failed = [case for *case, shape in ((*case, shape) for case in CASES for shape in SHAPES) if not check(*case, shape)]
    chained = [case for case in CASES if case[1].get("epilogue") in ("bias,gelu", "silu,mul")]
    failed += [(case, own) for case in chained for own in CHAINED
               if not check_chain(*case, *own)]
    for operands in ((torch.zeros(8, 8, device="cuda"), torch.zeros(8, 8, device="cuda", dtype=torch.float16)),):
        try:
            gemm_tuned.matmul(*operands)
            failed.append("mixed types")
        except gemm_tuned.GemmTunedError as error:
            print("told:", error)
    sys.exit(bool(failed))
