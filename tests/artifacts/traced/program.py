"""A program for tests/trace.rs.

    program.py [exit | interrupted | child | nothing | gpu]
"""

import multiprocessing
import os
import signal
import sys
import threading
import time

WORD = sys.argv[1] if len(sys.argv) > 1 else ""
if WORD == "nothing":
    sys.exit()

import torch  # noqa: E402: nothing is recorded without it


def child():
    for _ in range(4):
        torch.mm(torch.packed(8, 16), torch.packed(16, 24))


if WORD == "gpu":
    for _ in range(100):
        torch.mm(torch.packed(8, 16, device="cuda"), torch.packed(16, 24, device="cuda"))
    sys.exit()

x, weight = torch.packed(64, 32), torch.Tensor((32, 48), (1, 32))
for _ in range(100):
    torch.addmm(torch.packed(48), x, weight)
torch.mm(torch.packed(8, 16), torch.packed(16, 24))
torch.bmm(torch.packed(3, 8, 16, dtype=torch.bfloat16), torch.packed(3, 16, 8, dtype=torch.bfloat16))
torch.mm(torch.packed(8, 8, dtype=torch.float64), torch.packed(8, 8, dtype=torch.float64))
torch.mm(torch.packed(0, 8), torch.packed(8, 8))
torch.add(x, x)
thread = threading.Thread(target=lambda: torch.mm(torch.packed(8, 16), torch.packed(16, 24)))
thread.start()
thread.join()
if WORD == "child":
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
if WORD == "exit":
    sys.exit(3)
if WORD == "interrupted":
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
print("user", getattr(__builtins__, "of_the_user", "missing"))
