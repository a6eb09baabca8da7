"""Rows of calibration-h200.csv from searches that went on after they would have ended.

    python3 results/continued.py JOURNAL...

The journals are those of default runs that were continued by `--effort full --budget 6s`. At each stop, `left` says
whether one of the later outcomes was better by so much. A stop counts if at least 40 outcomes follow it. Journals of
searches that ended by their own rule do not belong here: those that are long had a late gain.
"""

import json
import statistics
import sys

from calibration import GAINS

WAITING = [4, 6, 8, 12, 16, 20, 24, 32, 40]
FOLLOWING = 40


def times(journal):
    """The problem of a journal, and the times of its outcomes in order; infinite where one was not correct."""
    problem, found = "", []
    for entry in map(json.loads, open(journal)):
        if "problem" in entry:
            it = entry["problem"]
            shape = "x".join(str(it["shape"][extent]) for extent in "mnk")
            batch = f" x{it['batch']}" if it["batch"] > 1 else ""
            problem = f"{shape} {it['layout']}{batch} {it['dtype']}"
        elif entry["outcome"] == "correct":
            found.append(statistics.median(entry["measurement"]["samples"]))
        else:
            found.append(float("inf"))
    return problem, found


def main():
    for journal in sys.argv[1:]:
        problem, found = times(journal)
        least, since, waiting = float("inf"), 0, list(WAITING)
        for number, time in enumerate(found[: len(found) - FOLLOWING]):
            since = 0 if time < least * (1 - 1e-3) else since + 1
            least = min(least, time)
            while waiting and since >= waiting[0]:
                left = [int(min(found) < least * (1 - gain / 100)) for gain in GAINS]
                print("search", problem, "continued", "learned", waiting.pop(0), 1, "", *left, sep=",")


if __name__ == "__main__":
    main()
