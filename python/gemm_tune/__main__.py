"""`python -m gemm_tune` is the program."""

import os
import sys

from . import GemmTuneError, program

try:
    path = program()
except GemmTuneError as error:
    sys.exit(f"error: {error}")
os.execv(path, [path, *sys.argv[1:]])
