"""Searches whose stated chances are checked, on a GPU.

    python3 results/calibrate.py SHAPES OUT_DIR [--first LINE] [--seconds S] [--seeds N] [--known DIR] [--lookup DB]

For each line of SHAPES, from line LINE (0) on, until S seconds have passed:

- default runs with N seeds (4), the first from an empty cache;
- a search of 10 s that knows all, where N is more than one;
- a search of 60 s that knows nothing of the GPU (`--uninformed`): what it finds counts as left behind by others;
- with `--known`, the kernels of DIR, an OUT_DIR of an earlier run, instead of these two searches;
- with `--lookup`, the kernel that `gemm-tune lookup` answers from a database without the problem;
- one final of all winners, and of the best kernel at each stop that a lower effort would have made.

OUT_DIR/I has the journals, what the runs say (`--json`), and the final. GEMM_TUNE names the program.
"""

import argparse
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("GEMM_TUNE", "gemm-tune")
# Outcomes without a gain of 0.1 % after which a run is looked at.
STOPS = [4, 12, 24]


def run(name, line, cache, out, *arguments):
    """Tunes a problem from an empty database; keeps what it says and its journal, and returns its document."""
    shapes = out / "shape.txt"
    shapes.write_text(line + "\n")
    begun = time.time()
    said = subprocess.run(
        [PROGRAM, "--shapes", shapes, "--db", out / f"{name}.toml", "--cache", cache, "--json", "-q", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(said.stdout)
    document["wall_s"] = round(time.time() - begun, 2)
    (out / f"{name}.json").write_text(json.dumps(document))
    for journal in pathlib.Path(cache).glob("journal/**/*.jsonl"):
        with gzip.open(out / f"{name}.jsonl.gz", "wt") as file:
            file.write(journal.read_text())
        journal.unlink()
    return document


def bests(journal):
    """The best kernel when a run has had so many outcomes without a gain for the first time, and the last best."""
    best, best_time, since, waiting, found = None, float("inf"), 0, list(STOPS), []
    for entry in map(json.loads, gzip.open(journal, "rt")):
        since += 1
        if entry.get("outcome") == "correct":
            taken = statistics.median(entry["measurement"]["samples"])
            if taken < best_time:
                since = 0 if taken < best_time * (1 - 1e-3) else since
                best, best_time = entry, taken
        while waiting and since >= waiting[0]:
            found.append(best)
            waiting.pop(0)
    return [kernel for kernel in [*found, best] if kernel]


def named(kernel):
    """A kernel as `compare --config` reads it."""
    values = ",".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                      for name, value in kernel["parameters"].items())
    return f"{kernel['family']}:{values}"


def final(line, out, cache, kernels):
    """One final of kernels."""
    configs = [part for kernel in kernels for part in ("--config", kernel)]
    shape, *rest = line.split()
    layout = [word for word in rest if not word.startswith("x")] or ["nn"]
    batch = [word[1:] for word in rest if word.startswith("x")] or ["1"]
    said = subprocess.run(
        [PROGRAM, "compare", "--shape", shape, "--layout", *layout, "--batch", *batch, "--db", out / "seed0.toml",
         "--cache", cache, "--json", "-q", *configs],
        capture_output=True,
        text=True,
        check=False,
    )
    (out / "final.json").write_text(said.stdout)
    if said.returncode != 0:
        print(said.stderr[-500:], file=sys.stderr)
    (out / "kernels.json").write_text(json.dumps(kernels))


def answer(line, database):
    """The kernel that `lookup` answers, with its document."""
    shape, *rest = line.split()
    words = ["--layout" if not word.startswith("x") else "--batch" for word in rest]
    options = [part for word, value in zip(words, rest) for part in (word, value.removeprefix("x"))]
    said = subprocess.run(
        [PROGRAM, "lookup", "--shape", shape, *options, "--db", database, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(said.stdout)


def searches(options, line, cache, out):
    """Runs the searches of a problem; returns the kernels that their final compares."""
    normal = [run(f"seed{seed}", line, cache, out, "--fresh", "--seed", str(seed)) for seed in range(options.seeds)]
    names = [f"seed{seed}" for seed in range(options.seeds)]
    kernels = []
    if options.known:
        kernels = json.loads((options.known / out.name / "kernels.json").read_text())
    else:
        unlimited = ["--effort", "full", "--max-configs", "100000"]
        if options.seeds > 1:
            run("informed", line, cache, out, "--fresh", *unlimited, "--budget", "10s", "--seed", "100")
            names.append("informed")
        run("long", line, cache, out, "--uninformed", *unlimited, "--budget", "60s", "--seed", "200")
        names.append("long")
    found = [kernel for name in names for kernel in bests(out / f"{name}.jsonl.gz")]
    found += [result["winner"] for document in normal for result in document.get("results", []) if result.get("winner")]
    if options.lookup:
        document = answer(line, options.lookup)
        (out / "lookup.json").write_text(json.dumps(document))
        found.append(document)
    for kernel in map(named, found):
        if kernel not in kernels:
            kernels.append(kernel)
    return kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--known", type=pathlib.Path)
    parser.add_argument("--lookup", type=pathlib.Path)
    options = parser.parse_args()
    lines = [line.split("#")[0].strip() for line in options.shapes.open()]
    lines = [line for line in lines if line]
    begun, longest = time.time(), 0.0
    for number in range(options.first, len(lines)):
        own = time.time()
        if own - begun + longest > options.seconds:
            print(f"next: {number}")
            break
        line, out = lines[number], options.out / str(number)
        if options.known and not (options.known / out.name).exists():
            continue
        out.mkdir(parents=True, exist_ok=True)
        cache = tempfile.mkdtemp()
        kernels = searches(options, line, cache, out)
        final(line, out, cache, kernels)
        shutil.rmtree(cache, ignore_errors=True)
        longest = max(longest, time.time() - own)
        print(f"{number} {line}: {len(kernels)} kernels, {time.time() - own:.0f} s", flush=True)


if __name__ == "__main__":
    main()
