"""Calls the Python package of the wheel, on the cpu device.

    package.py FOLDER [CACHE]       GEMM_TUNE_PROGRAM names the program, or the wheel is installed
"""

import os
import subprocess
import sys

import gemm_tune

FOLDER, *cache = sys.argv[1:]
options = {"cache": cache[0]} if cache else {}


def refused(words, call):
    try:
        call()
    except gemm_tune.GemmTuneError as error:
        assert words in str(error), error
        return error
    raise AssertionError(f"nothing says {words!r}")


assert os.path.isfile(gemm_tune.program())
answer = gemm_tune.lookup((64, 64, 64), **options)
assert "error" not in answer and answer, answer
assert refused("is not a shape", lambda: gemm_tune.lookup("64x", **options)).code == 2
assert refused("f65", lambda: gemm_tune.lookup(64, dtype="f65", **options)).code == 2
refused("there is no shape to tune", lambda: gemm_tune.tune([], out=FOLDER))
refused("--max-configs <N>", lambda: gemm_tune.run("tune", "64", max_configs=0))

tuned = gemm_tune.tune([(40, 24, 16), "24x40x16"], out=FOLDER, device="cpu", max_configs=2, quiet=True,
                       export={"modelled": True, "only_tuned": True}, **options)
assert len(tuned.results) == 2 and os.path.isfile(tuned.library), tuned
module = tuned.load()
assert module is tuned.load() and module.version() == 3
assert module.kernel_for(40, 24, 16) == "gemm_f32_nn_40x24x16", module.kernel_for(40, 24, 16)
refused("imported from", gemm_tune.Tuned(os.path.dirname(FOLDER), []).load)
said = subprocess.run([sys.executable, "-m", "gemm_tune", "--version"], stdout=subprocess.PIPE, text=True)
assert said.returncode == 0 and said.stdout.startswith("gemm-tune "), said

os.environ["GEMM_TUNE_PROGRAM"] = "/nonexistent/gemm-tune"
refused("which is no file", gemm_tune.program)
print("right")
