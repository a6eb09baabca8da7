"""Prints the times of all surfaces beside those of the tuner, from what run.sh left in a folder.

    table.py FOLDER PROBLEMS [CSV]

Ratios are of a surface's time to the tuner's, which is the mean of what it measured before and after the surfaces. A ratio
above 1.02 is marked `!` where the whole interval of the time is above 1.02 times both of the tuner's times, and `?` elsewhere.
The exit code is 1 where a result is wrong: its error is beyond its bound.
"""

import csv
import json
import statistics
import sys
from pathlib import Path

import problems as lists

SURFACES = ("c", "c++", "rust", "torch eager", "torch operator", "torch compiled", "torch graphed", "cupy", "jax")
FIELDS = ("surface", "problem", "us", "low_us", "high_us", "error", "note")
COLUMNS = ("problem", "surface", "us", "low_us", "high_us", "tuner_us", "drift_percent", "ratio", "error", "note")
SLOW = 1.02


def file_of(surface):
    """The name of a surface's files."""
    return surface.replace(" ", "-")


def times_of_tuner(path):
    """Microseconds by the names of problems."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    times = {}
    for one in document.get("verified", []):
        us = one["winner"].get("median_us")
        if us:
            times[lists.of_record(one["record"]["problem"])] = us
    return times


def rows_of(folder, surface):
    """The rows of a surface by problem."""
    try:
        with open(folder / f"{file_of(surface)}.csv", newline="") as file:
            rows = [dict(zip(FIELDS, row)) for row in csv.reader(file) if len(row) == len(FIELDS)]
    except OSError:
        return {}
    return {row["problem"]: row for row in rows}


def status_of(folder, surface):
    try:
        return (folder / f"{file_of(surface)}.status").read_text().strip()
    except OSError:
        return "did not run"


def is_wrong(row):
    """Whether the error is beyond its bound, or no number."""
    return row["error"] != "" and not float(row["error"]) <= 1


class Table:
    def __init__(self, folder, problems):
        before, after = (times_of_tuner(folder / f"tuner-{when}.json") for when in ("before", "after"))
        self.problems = problems
        self.tuner, self.slowest, self.drift = {}, {}, {}
        for problem in problems:
            times = [known[problem.name] for known in (before, after) if problem.name in known]
            if times:
                self.tuner[problem.name], self.slowest[problem.name] = statistics.fmean(times), max(times)
            if len(times) == 2:
                self.drift[problem.name] = 100 * (times[1] / times[0] - 1)
        self.rows = {surface: rows_of(folder, surface) for surface in SURFACES}
        self.status = {surface: status_of(folder, surface) for surface in SURFACES}

    def ratio(self, surface, name):
        """A surface's time over the tuner's; None where one of them is missing."""
        row = self.rows[surface].get(name)
        if row is None or not row["us"] or name not in self.tuner:
            return None
        return float(row["us"]) / self.tuner[name]

    def mark(self, surface, name):
        """Whether a surface is slow: `!`, or `?` where its interval and the tuner's two times do not say so. Else empty."""
        ratio = self.ratio(surface, name)
        if ratio is None or ratio <= SLOW:
            return ""
        return "!" if float(self.rows[surface][name]["low_us"]) > SLOW * self.slowest[name] else "?"

    def cell(self, surface, name):
        row, ratio = self.rows[surface].get(name), self.ratio(surface, name)
        if row is not None and is_wrong(row):
            return "WRONG"
        if ratio is None:
            return "-"
        return f"{ratio:.3f} {self.mark(surface, name)}".rstrip()

    def of_surface(self, surface):
        found = (self.ratio(surface, problem.name) for problem in self.problems)
        return [ratio for ratio in found if ratio is not None]

    def markdown(self):
        """The table, with the geometric mean and the worst of each surface."""
        lines = [["problem", "tuner us", "drift %", *SURFACES], ["---"] * (3 + len(SURFACES))]
        for problem in self.problems:
            us, drift = self.tuner.get(problem.name), self.drift.get(problem.name)
            lines.append([problem.name, "-" if us is None else f"{us:.2f}", "-" if drift is None else f"{drift:+.2f}",
                          *(self.cell(surface, problem.name) for surface in SURFACES)])
        for name, figure in (("geometric mean", statistics.geometric_mean), ("worst", max)):
            ratios = [self.of_surface(surface) for surface in SURFACES]
            lines.append([name, "", "", *(f"{figure(own):.3f}" if own else "-" for own in ratios)])
        lines.append(["timed", str(len(self.tuner)), "", *(str(len(self.of_surface(surface))) for surface in SURFACES)])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def remarks(self):
        """What is wrong, slow or missing, a line each; and whether something is wrong."""
        wrong, others = [], []
        for surface in SURFACES:
            if self.status[surface] != "done":
                others.append(f"incomplete: {surface}: {self.status[surface]}")
            missing = [problem.name for problem in self.problems if problem.name not in self.rows[surface]]
            if missing:
                others.append(f"missing: {surface}: {len(missing)} of {len(self.problems)} problems, first {missing[0]}")
            for problem in self.problems:
                row, ratio = self.rows[surface].get(problem.name), self.ratio(surface, problem.name)
                if row is not None and is_wrong(row):
                    wrong.append(f"WRONG: {surface}: {problem.name}: {row['error']} times the bound")
                elif row is not None and not row["us"]:
                    others.append(f"no time: {surface}: {problem.name}: {row['note']}")
                elif row is not None and row["note"]:
                    others.append(f"note: {surface}: {problem.name}: {row['note']}")
                mark = self.mark(surface, problem.name)
                if mark:
                    word = "slow" if mark == "!" else "unsure"
                    others.append(f"{word}: {surface}: {problem.name}: {ratio:.3f} of the tuner's time, "
                                  f"{row['low_us']} to {row['high_us']} us")
        others += [f"no time of the tuner: {one.name}" for one in self.problems if one.name not in self.tuner]
        return wrong + others, bool(wrong)

    def write(self, path):
        """All rows with the tuner's times, as CSV."""
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for surface in SURFACES:
                for problem in self.problems:
                    name = problem.name
                    row, ratio = self.rows[surface].get(name), self.ratio(surface, name)
                    if row is None:
                        continue
                    figures = {"tuner_us": self.tuner.get(name), "drift_percent": self.drift.get(name), "ratio": ratio}
                    words = {key: "" if value is None else f"{value:.5g}" for key, value in figures.items()}
                    writer.writerow(row | words)


def main():
    folder, problems = Path(sys.argv[1]), lists.read(sys.argv[2])
    table = Table(folder, problems)
    print(table.markdown())
    remarks, has_wrong = table.remarks()
    print("\n".join(remarks) if remarks else f"all within {SLOW:.2f} times the tuner's time")
    drifts = [abs(drift) for drift in table.drift.values()]
    if drifts:
        print(f"the tuner's own times changed by {statistics.median(drifts):.2f} % in the median, {max(drifts):.2f} % at most")
    if len(sys.argv) > 3:
        table.write(sys.argv[3])
    sys.exit(has_wrong)


if __name__ == "__main__":
    main()
