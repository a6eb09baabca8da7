"""Measuring on first use by an exported Python module, with stub_driver.c in the place of the driver: a kernel takes
as long as the hash of its image says.

    measure.py FOLDER FILE MODE        with LD_LIBRARY_PATH=FOLDER/stub, GEMM_TUNED_MEASURE, GEMM_TUNED_MEASURE_FILE

MODE is `check` for all that one process can see, or a number of problems for one of several processes.
"""

import ctypes
import os
import sys

FOLDER, FILE, MODE = sys.argv[1:]
stub = ctypes.CDLL("libcuda.so.1")
stub.stub_recorded.restype = ctypes.c_char_p
sys.path[:0] = [FOLDER, __file__.rpartition("/")[0] + "/stubs"]
import gemm_tuned  # noqa: E402: the folder is an argument
import torch  # noqa: E402: the one of stubs/

torch.memory(1 << 42, 1 << 46)
stub.stub_memory(ctypes.c_uint64(1 << 46))


def product(m, n, k):
    """What is launched for a problem: the hash of the last kernel's image and the text of all launches."""
    a = torch.Tensor((1 << 40) + 16, (m, k), (k, 1))
    b = torch.Tensor(1 << 41, (k, n), (n, 1))
    stub.stub_begin()
    gemm_tuned.matmul(a, b)
    return stub.stub_recorded().decode()


def time_of(text):
    """The time that the stub gives the kernel of a call."""
    return int(text.split(";")[-2].split(":")[0], 16) % 1000


def lines():
    return open(FILE).read().splitlines() if os.path.exists(FILE) else []


def again(mode):
    """A new handle in the same process."""
    os.environ["GEMM_TUNED_MEASURE"] = mode
    gemm_tuned.library.handles.clear()
    gemm_tuned._calls.clear()


if MODE != "check":
    again("1")
    for extent in range(int(MODE)):
        product(300 + extent, 500, 700)
    sys.exit()

SHAPES = [(m, n, k) for m in (300, 1234, 5000) for n in (300, 2345) for k in (300, 3456)]
# By forecast: nothing is allocated or written.
again("0")
stub.stub_memory(ctypes.c_uint64(0))
forecast = {shape: product(*shape) for shape in SHAPES}
assert lines() == []
# Measured: never slower by the stub's times, faster for some; one line for each.
again("1")
stub.stub_memory(ctypes.c_uint64(1 << 46))
for shape in SHAPES:
    product(*shape)
    assert product(*shape).count(";") <= 3, "a later call measures nothing"
measured = {shape: product(*shape) for shape in SHAPES}
assert stub.stub_allocations() == 0
faster = [shape for shape in SHAPES if time_of(measured[shape]) < time_of(forecast[shape])]
slower = [shape for shape in SHAPES if time_of(measured[shape]) > time_of(forecast[shape])]
assert faster and not slower, (faster, slower)
assert len(lines()) == len(SHAPES), lines()
# Read by another handle, which measures nothing: not even memory is there.
again("read")
stub.stub_memory(ctypes.c_uint64(0))
assert {shape: product(*shape) for shape in SHAPES} == measured
other = product(777, 777, 777)
assert len(lines()) == len(SHAPES)
# Without memory: by forecast, and the next call does not try again.
again("1")
assert product(777, 777, 777) == other and len(lines()) == len(SHAPES)
stub.stub_memory(ctypes.c_uint64(1 << 46))
assert product(777, 777, 777) == other and len(lines()) == len(SHAPES)
# Not within a capture, but after it.
stub.stub_capture(1)
captured = product(888, 888, 888)
assert len(lines()) == len(SHAPES)
stub.stub_capture(0)
product(888, 888, 888)
assert len(lines()) == len(SHAPES) + 1
assert time_of(product(888, 888, 888)) <= time_of(captured)
# A problem that was tuned is not measured.
with open(FILE) as file:
    text = file.read()
tuned = next(line for line in sys.stdin if line.strip()).split("x")
product(*map(int, tuned))
assert open(FILE).read() == text
# A file that is no such file, of hostile lines, or that cannot be written.
words = text.splitlines()[0].split()
hostile = ["", "x", "0 1 2", "-1 " * 10, " ".join(["9" * 30] * 10), " ".join([*words[:9], "no_such_kernel", "1"]),
           " ".join([words[0], *words[1:9], "x" * 4000, "1"]), "\x00" * 100, " ".join(["3", *words[1:]])]
with open(FILE, "w") as file:
    file.write("\n".join(hostile) + "\n" + text + "0 300 300")
again("read")
assert {shape: product(*shape) for shape in SHAPES} == measured
for place in ("/proc/none/x", "/dev/zero", FOLDER):
    os.environ["GEMM_TUNED_MEASURE_FILE"] = place
    again("1")
    assert time_of(product(300, 300, 300)) <= time_of(forecast[300, 300, 300])
os.mkfifo(FILE + ".fifo")
os.environ["GEMM_TUNED_MEASURE_FILE"] = FILE + ".fifo"
again("1")
assert time_of(product(300, 300, 300)) <= time_of(forecast[300, 300, 300])
# The default file is in the cache folder, by library, GPU and driver.
del os.environ["GEMM_TUNED_MEASURE_FILE"]
os.environ["XDG_CACHE_HOME"] = FILE + ".cache"
again("1")
product(300, 300, 300)
(name,) = os.listdir(FILE + ".cache/gemm-tune/measured")
assert name.endswith("-A-Stub-of-a-GPU-13000.txt") and len(name.split("-")[0]) == 16, name
print("right")
