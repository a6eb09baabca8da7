"""The problems of a file such as problems.txt, for the other scripts of this folder and for gemm-tune.

    problems.py PROBLEMS FOLDER         writes what gemm-tune reads into FOLDER, and prints a line of options for each run
    problems.py --winners DB WINNERS    copies a database without the runners-up, so that `db verify` times winners alone

`gemm-tune --trace` takes problems of several types and epilogues in one run, but leaves the last 5 % of the time out, and
has no other type of D. So each type has a trace of its own, in which all problems have the same share, and a product with
another type of D has a file of shapes.
"""

import json
import sys
import typing
from pathlib import Path

# Problems in a trace: each has more than 5 % of the time.
MOST_IN_TRACE = 16


class Problem(typing.NamedTuple):
    """A product. `name` is its line, which all tables have; `compute` is tf32 where that is not the type's own."""

    name: str
    type: str
    out: str
    layout: str
    m: int
    n: int
    k: int
    epilogue: str

    @property
    def dtype(self):
        return "f32" if self.type == "tf32" else self.type

    @property
    def compute(self):
        return "tf32" if self.type == "tf32" else None

    @property
    def words(self):
        """The operations of the epilogue."""
        return self.epilogue.split(",") if self.epilogue else []

    @property
    def usual_out(self):
        """The type of D where none is named."""
        return "i32" if self.type == "i8" else self.dtype


def read(path):
    """The problems of a file, in its order."""
    lines = [line.split("#")[0].split() for line in Path(path).read_text().splitlines()]
    return [parsed(words) for words in lines if words]


def parsed(words):
    if len(words) != 5 or words[3].count("x") != 2:
        raise SystemExit(f"`{' '.join(words)}` is no problem: write TYPE OUT LAYOUT MxNxK EPILOGUE, with - for no epilogue")
    kind, out, layout, shape, epilogue = words
    m, n, k = map(int, shape.split("x"))
    return Problem(" ".join(words), kind, out, layout, m, n, k, "" if epilogue == "-" else epilogue)


def of_record(problem):
    """The name of the problem in a document of gemm-tune."""
    kind = "tf32" if problem["compute"] == "tf32" else problem["dtype"]
    default = "i32" if kind == "i8" else problem["dtype"]
    out = problem.get("out") or default
    shape = f"{problem['m']}x{problem['n']}x{problem['k']}"
    return f"{kind} {out} {problem['layout']} {shape} {problem.get('epilogue') or '-'}"


def trace(problems):
    """A trace in which each problem has the same share of the time."""
    entries = [{"m": one.m, "n": one.n, "k": one.k, "batch": 1, "dtype": one.dtype, "compute": one.compute or one.dtype,
                "layout": one.layout, "epilogue": one.epilogue, "count": 1, "torch_us": 100.0, "samples": 1}
               for one in problems]
    return {"schema": 1, "program": ["results/surfaces"], "torch": "none", "device": "none", "seconds": 1.0,
            "problems": entries, "others": {}}


def without_runners_up(text):
    """A database without what its finals say of other kernels."""
    lines, is_kept = [], True
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            is_kept = line.strip() != "[record.confidence]"
        lines += [line] if is_kept else []
    return "".join(lines)


def main():
    if sys.argv[1] == "--winners":
        Path(sys.argv[3]).write_text(without_runners_up(Path(sys.argv[2]).read_text()))
        return
    problems, folder = read(sys.argv[1]), Path(sys.argv[2])
    usual = [one for one in problems if one.out == one.usual_out]
    for kind in dict.fromkeys(one.type for one in usual):
        own = [one for one in usual if one.type == kind]
        for part in range(0, len(own), MOST_IN_TRACE):
            path = folder / f"{kind}-{part}.json"
            path.write_text(json.dumps(trace(own[part:part + MOST_IN_TRACE])))
            print(f"--trace {path}")
    for number, one in enumerate(one for one in problems if one.out != one.usual_out):
        path = folder / f"shapes-{number}.txt"
        path.write_text(f"{one.m}x{one.n}x{one.k} {one.layout}\n")
        compute = f" --compute {one.compute}" if one.compute else ""
        epilogue = f" --epilogue {one.epilogue}" if one.epilogue else ""
        print(f"--shapes {path} --dtype {one.dtype} --out {one.out}{compute}{epilogue}")


if __name__ == "__main__":
    main()
