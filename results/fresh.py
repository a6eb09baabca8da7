"""What fresh.sh found: how soon each search came how near to the best that is known of its problem, by
the medians that it took before its final.

    fresh.py OUT_DIR DB

The best that is known is the least of what the search measured and what the record in DB took in this
very run. A record that the search did not come upon is measured after all others; it is no find.
"""

import json
import pathlib
import statistics
import sys
import tomllib

KEYS = ("m", "n", "k", "batch", "dtype", "compute", "layout")


def problem(heading):
    """The problem of a journal, as databases name it."""
    return {**heading["problem"], **heading["problem"]["shape"]}


def is_record(entry, record):
    return entry["family"] == record["family"] and entry["parameters"] == record["parameters"]


def times(entries):
    """When each that is correct was measured, and its median."""
    return [(entry["after_s"], statistics.median(entry["measurement"]["samples"]))
            for entry in entries if entry["outcome"] == "correct"]


def row(out, number, records):
    with open(out / f"{number}.jsonl") as journal:
        heading, *entries = [json.loads(line) for line in journal]
    key = tuple(problem(heading)[name] for name in KEYS)
    record = records.get(key)
    is_met_last = record is not None and is_record(entries[-1], record)
    timed, found = times(entries), times(entries[:-1] if is_met_last else entries)
    best = min(time for _, time in timed)
    near = [min((after for after, time in found if time <= (1 + within) * best), default=None)
            for within in (0.02, 0.01)]
    wall = (out / f"{number}.wall").read_text().strip()
    return key, min(time for _, time in found) / best - 1, near, len(entries), float(wall)


def main():
    out = pathlib.Path(sys.argv[1])
    with open(sys.argv[2], "rb") as file:
        records = {tuple(record["problem"][name] for name in KEYS): record
                   for record in tomllib.load(file)["record"]}
    print(f"{'problem':32} {'behind':>7} {'2 % s':>6} {'1 % s':>6} {'evaluated':>9} {'run s':>6}")
    for number in sorted(int(journal.stem) for journal in out.glob("*.jsonl")):
        key, behind, near, evaluated, wall = row(out, number, records)
        m, n, k, batch, *_, layout = key
        name = f"{m}x{n}x{k} {layout}" + (f" x{batch}" if batch > 1 else "")
        near = " ".join(f"{'never' if after is None else f'{after:.1f}':>6}" for after in near)
        print(f"{name:32} {behind:7.2%} {near} {evaluated:9} {wall:6.1f}")


if __name__ == "__main__":
    main()
