"""Runs results/surfaces/measure.py for the surfaces of PyTorch without a GPU: the real PyTorch, and the library of
tests/pytorch/stand_in.py. A product takes 100 us. Needs PyTorch 2.4 or later.

    torch_host.py FOLDER PROBLEMS         FOLDER has the Python modules of an export; no library is needed
"""

import os
import sys

FOLDER, PROBLEMS = sys.argv[1:]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# host.py takes the folder as its argument too.
sys.argv[1:] = [FOLDER]
sys.path[1:1] = [FOLDER, f"{ROOT}/tests/pytorch", f"{ROOT}/results/surfaces"]
import host  # noqa: E402: the folders are arguments
import measure  # noqa: E402
import torch  # noqa: E402

LATE_BELOW = 1 << 20


class OnHost(measure.Torch):
    """A surface of PyTorch whose time is the number of products. The host is late until 1 MiB is overwritten."""

    def open(self):
        self.device, self.l2_bytes = "cpu", 1 << 15

    def wait(self):
        pass

    def recorded(self, run):
        return run

    def sample(self, run):
        before = len(host.calls)
        run()
        return 100.0 * (len(host.calls) - before), self.flush_bytes < LATE_BELOW


host.on_host()
host.library("bias", "bias,gelu", "residual", "silu,mul", "row-scale,col-scale", computes=("tf32",))
problems = measure.lists.read(PROBLEMS)
for way in ("eager", "operator", "compiled", "graphed"):
    surface = OnHost(way)
    for problem in problems:
        print(measure.row(f"torch {way}", surface, problem), flush=True)
    assert surface.flush_bytes == LATE_BELOW, surface.flush_bytes
# A wrong result has an error beyond its bound, and a host that is always late has no time.
right = host.the_library.run


def wrong(*arguments):
    status = right(*arguments)
    module = host.gemm_tuned
    problem = module._Problem.from_address(arguments[1])
    at = module._OPERANDS.unpack(arguments[2])[3]
    host.the_library.array(at, problem.dtype_d, (problem.m, problem.n), (problem.ldd, 1))[-1, 3] += 1
    return status


host.library("bias")
host.the_library.run = host.the_library.gemm_tuned_run = wrong
print(measure.row("wrong", OnHost("eager"), problems[0]))
host.library("bias")
host.the_library.run = host.the_library.gemm_tuned_run = right
LATE_BELOW = 1 << 60
print(measure.row("late", OnHost("eager"), problems[0]))
