"""Tunes matrix products on the GPU of this machine, by the program gemm-tune.

    import gemm_tune
    tuned = gemm_tune.tune(["4096x4096x1024", "512"], dtype="bf16", layout="nt", out="tuned-py")
    d = tuned.load().matmul(a, b)              # PyTorch tensors or CuPy arrays
    gemm_tune.lookup("960x1100x2048")          # the kernel for a shape that nobody tuned, as a dict

Options are those of the program, with `_` for `-`: `max_configs=100` is `--max-configs 100`, `force=True` is `--force`,
and a list repeats an option. `gemm-tune tune --help` lists them. A failure raises GemmTuneError with the program's
message. The program prints its progress to standard error.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig

__all__ = ["GemmTuneError", "Tuned", "lookup", "program", "run", "tune"]


class GemmTuneError(RuntimeError):
    """What the program says of a failure; `code` is its exit code."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


def program():
    """The path of the program: GEMM_TUNE_PROGRAM, else the one that was installed with this package, else that of PATH."""
    named = os.environ.get("GEMM_TUNE_PROGRAM")
    if named:
        if not os.path.isfile(named):
            raise GemmTuneError(f"GEMM_TUNE_PROGRAM is `{named}`, which is no file: name the program gemm-tune")
        return named
    # Where pip installs scripts: of this environment, or of the user.
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    for folder in filter(None, schemes):
        path = os.path.join(folder, "gemm-tune")
        if os.path.isfile(path):
            return path
    found = shutil.which("gemm-tune")
    if found is None:
        raise GemmTuneError("the program gemm-tune is not installed: run `pip install --force-reinstall gemm-tune`, or name "
                            "it in GEMM_TUNE_PROGRAM")
    return found


def _arguments(options):
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words.append(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


def _shape(shape):
    """The text of a shape: `512`, `(m, n, k)`, or as it is."""
    if isinstance(shape, (list, tuple)):
        return "x".join(str(extent) for extent in shape)
    return str(shape)


def run(command, *words, **options):
    """Runs a command of the program, and returns its JSON document."""
    arguments = [program(), command, *_arguments({**options, "json": True}), *map(str, words)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {}
    if done.returncode != 0 and not ("results" in document and "error" not in document):
        message = document.get("error") or f"`{' '.join(arguments)}` ended with {done.returncode}"
        raise GemmTuneError(message, done.returncode)
    return document


def lookup(shape, **options):
    """The kernel for a shape, tuned or not, as the document of `gemm-tune lookup --json`."""
    return run("lookup", _shape(shape), **options)


class Tuned:
    """What `tune` gives: the folder of an exported Python module, its library, and the results."""

    def __init__(self, folder, results):
        self.folder, self.results = folder, results
        self.library = os.path.join(folder, "libgemm_tuned.so")

    def load(self):
        """The module gemm_tuned of the folder."""
        path = os.path.join(self.folder, "gemm_tuned.py")
        known = sys.modules.get("gemm_tuned")
        if known is not None:
            if os.path.realpath(known.__file__) == os.path.realpath(path):
                return known
            raise GemmTuneError(f"gemm_tuned is imported from `{known.__file__}` already: load `{path}` in another process")
        spec = importlib.util.spec_from_file_location("gemm_tuned", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["gemm_tuned"] = module
        # What it imports lies beside it, and is not that of another folder.
        sys.path.insert(0, self.folder)
        spec.loader.exec_module(module)
        return module

    def __repr__(self):
        return f"<gemm_tune: {len(self.results)} results in {self.folder}>"


def tune(shapes, *, out, db=None, export=None, **options):
    """Tunes shapes and exports a Python module to the folder `out`. A shape is `(m, n, k)`, a number for a cube, or a text
    such as `4096x4096x1024`. `db` is the database of the winners, `export` has further options of the export."""
    if isinstance(shapes, (str, int)):
        shapes = [shapes]
    shapes = [_shape(shape) for shape in shapes]
    if not shapes:
        raise GemmTuneError("there is no shape to tune: give a list of shapes")
    folder = os.path.abspath(out)
    database = os.path.abspath(db) if db is not None else os.path.join(folder, "winners.toml")
    os.makedirs(os.path.dirname(database), exist_ok=True)
    document = run("tune", *shapes, db=database, **options)
    failed = [one["error"] for one in document["results"] if "error" in one]
    if failed:
        raise GemmTuneError("; ".join(failed), 1)
    shared = {name: options[name] for name in ("cache", "nvrtc", "offline", "quiet") if name in options}
    run("export", format="python", output=folder, db=database, **shared, **(export or {}))
    return Tuned(folder, document["results"])
