"""Times the host's part of products without a GPU: the modules of an export with a library that does nothing, beside
PyTorch on the host, which multiplies tiny matrices. Prints microseconds of a call, the best of several rounds. On a GPU
a launch comes in addition: gpu.py, section host. Run it on a machine that does nothing else.

    host_time.py FOLDER        FOLDER has the Python modules of an export; no library is needed
"""

import ctypes
import sys
import time

sys.path.insert(0, sys.argv[1])
import gemm_tuned  # noqa: E402: the folder is an argument
import gemm_tuned_torch as operators  # noqa: E402
import stand_in  # noqa: E402
import torch  # noqa: E402

ROUNDS, CALLS = 9, 2000
ops, functional = torch.ops.gemm_tuned, torch.nn.functional


def nothing():
    """A function of C that takes what gemm_tuned_run takes, and returns the first argument: the handle, which is 0."""
    function = ctypes.CDLL(None).labs
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = [pointer, pointer, pointer, pointer, size, pointer]
    return function


def microseconds(calls):
    """Of each call, the best of rounds in which all take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for place, call in enumerate(calls):
            call()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[place] = min(best[place], (time.perf_counter() - start) / CALLS * 1e6)
    return best


def cases(dtype):
    """Names, and the calls of a function or a module, of the operator or None, and of PyTorch."""
    a, b, bias = (torch.randn(*shape).to(dtype) for shape in ((16, 16), (16, 16), (16,)))
    x = torch.randn(2, 8, 16).to(dtype)
    own, theirs = (torch.nn.Linear(16, 16).to(dtype) for _ in range(2))
    own.__class__ = operators.TunedLinear
    by_torch, no_grad = lambda: torch.mm(a, b), torch.no_grad()
    with_bias, finish = lambda: functional.linear(a, b, bias), {"mul": b, "epilogue": "silu,mul"}  # noqa: E731
    return [
        ("gemm_tuned.matmul", lambda: gemm_tuned.matmul(a, b), None, by_torch, no_grad),
        ("gemm_tuned.matmul, silu,mul", lambda: gemm_tuned.matmul(a, b, **finish), lambda: ops.matmul(a, b, **finish),
         lambda: functional.silu(torch.mm(a, b)) * b, no_grad),
        ("mm", lambda: operators.mm(a, b), lambda: ops.mm(a, b), by_torch, no_grad),
        ("addmm", lambda: operators.addmm(bias, a, b), lambda: ops.addmm(bias, a, b), lambda: torch.addmm(bias, a, b),
         no_grad),
        ("linear, bias", lambda: operators.linear(a, b, bias), lambda: ops.linear(a, b, bias), with_bias, no_grad),
        ("TunedLinear, bias", lambda: own(x), lambda: ops.linear(x, own.weight, own.bias), lambda: theirs(x), no_grad),
        ("TunedLinear, forward", lambda: own(x), lambda: ops.linear(x, own.weight, own.bias), lambda: theirs(x),
         torch.enable_grad()),
        ("TunedLinear, and backward", lambda: own(x).backward(x),
         lambda: ops.linear(x, own.weight, own.bias).backward(x), lambda: theirs(x).backward(x), torch.enable_grad()),
    ]


def main():
    library = stand_in.use(gemm_tuned, nothing())
    library.epilogues = {"bias", "silu,mul"}
    operators.products.KERNEL_DEVICES.add("cpu")
    print(f"PyTorch {torch.__version__}: microseconds of a call")
    for dtype in (torch.float32, torch.bfloat16):
        for name, own, operator, theirs, mode in cases(dtype):
            with mode:
                # Two calls: the first makes the plan.
                own(), own()
                times = microseconds([own, theirs] if operator is None else [own, theirs, operator])
            own_us, their_us, *operator_us = times
            row = f"{str(dtype)[6:]:9} {name:27} {own_us:7.1f}   PyTorch {their_us:6.1f}"
            print(row + "".join(f"   operator {us:6.1f}" for us in operator_us), flush=True)


if __name__ == "__main__":
    main()
