"""Fits the chance that a search leaves something better, and checks it on problems that it was not fitted to.

    python3 results/calibration.py [DIAGRAM.svg]

Reads results/calibration-h200.csv. A row says of searches for one problem, when they had `waiting` outcomes without a
gain of 0.1 % for the first time, how many there were (`runs`) and in how many something better by more than 0.5, 1, 2
and 3 % was left. `search`: on one H200, the searches of results/calibrate.py; better is what a search of 60 s without
knowledge or any other found, all timed in one final; for the kind `continued` what the same search found later
(results/continued.py). `replay`: 30 seeds each on a space that was measured whole.

Prints the constants of src/search/stopping.rs, and what they say beside what was. Each problem's rows are judged by
constants that were fitted to all others. Draws the same with DIAGRAM.svg.
"""

import csv
import math
import pathlib
import sys

GAINS = [0.5, 1, 2, 3]
BINS = [0.13, 0.15, 0.2, 0.3, 0.5, 0.7, 1]
# Share of problems where something better is left however long the search waits.
BLIND_SPOT = 0.13
# Weight of a problem that was searched for on a GPU; a replayed one has 1.
SEARCHED = 2


def rows():
    """Cases: problem, features, runs, those with something left, and weight of one run."""
    path = pathlib.Path(__file__).with_name("calibration-h200.csv")
    read = list(csv.DictReader(open(path)))
    runs = {}
    for row in read:
        own = row["problem"], row["rule"]
        runs[own] = runs.get(own, 0) + int(row["runs"])
    cases = {"learned": [], "blind": []}
    for row in read:
        weight = (SEARCHED if row["source"] == "search" else 1) / runs[row["problem"], row["rule"]]
        for gain in GAINS:
            features = (1, math.sqrt(int(row["waiting"])), math.log(gain))
            left = int(row[f"left_{gain}"])
            cases[row["rule"]].append((row["problem"], features, int(row["runs"]), left, weight, row["source"], gain))
    return cases


def solve(matrix, vector):
    """Solves three linear equations by elimination."""
    rows = [list(row) + [value] for row, value in zip(matrix, vector)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at])]
    return [rows[at][size] / rows[at][at] for at in range(size)]


def chance(constants, features):
    """The stated chance: the share of problems that waiting does not help, and the waiting of the others."""
    return BLIND_SPOT + (1 - BLIND_SPOT) * logistic(constants, features)


def logistic(constants, features):
    """The chance for a problem that waiting helps."""
    return 1 / (1 + math.exp(-sum(a * b for a, b in zip(constants, features))))


def fit(cases):
    """Constants of the most likely chances, by expectation and maximisation over which problems waiting helps."""
    constants = [0.5, -0.25, -0.5]
    for _ in range(60):
        expected = []
        for problem, features, runs, left, *rest in cases:
            # Of those with something left, the share that is so by waiting too little.
            share = logistic(constants, features) / chance(constants, features)
            expected.append((problem, features, runs, left * share, *rest))
        before, constants = constants, regression(expected)
        if max(abs(a - b) for a, b in zip(before, constants)) < 1e-5:
            break
    return constants


def regression(cases):
    """Logistic regression by Newton's method."""
    constants = [0.0, 0.0, 0.0]
    for _ in range(40):
        gradient = [-1e-3 * one for one in constants]
        hessian = [[1e-3 if a == b else 0.0 for b in range(3)] for a in range(3)]
        for _, features, runs, left, weight, *_ in cases:
            said = logistic(constants, features)
            for a in range(3):
                gradient[a] += weight * (left - runs * said) * features[a]
                for b in range(3):
                    hessian[a][b] += weight * runs * said * (1 - said) * features[a] * features[b]
        step = solve(hessian, gradient)
        constants = [a + b for a, b in zip(constants, step)]
        if max(map(abs, step)) < 1e-9:
            break
    return constants


def held_out(cases):
    """Cases with what was said by constants that their problem had no part in."""
    judged = []
    for problem in dict.fromkeys(case[0] for case in cases):
        constants = fit([case for case in cases if case[0] != problem])
        judged += [(chance(constants, case[1]), case) for case in cases if case[0] == problem]
    return judged


def table(judged):
    """Said and was, by ranges of what was said."""
    lines = []
    for low, high in zip(BINS, BINS[1:]):
        own = [(said, case) for said, case in judged if low <= said < high]
        total = sum(case[2] * case[4] for _, case in own)
        if total > 0:
            said = sum(said * case[2] * case[4] for said, case in own) / total
            was = sum(case[3] * case[4] for _, case in own) / total
            lines.append((low, high, len({case[0] for _, case in own}), sum(case[2] for _, case in own), said, was))
    return lines


def diagram(series):
    """A reliability diagram."""
    size, left, top = 360, 60, 20
    x = lambda value: left + size * value
    y = lambda value: top + size * (1 - value)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + size + 150} {top + size + 60}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for tick in range(0, 11, 2):
        value = tick / 10
        parts.append(f'<line x1="{x(value)}" y1="{y(0)}" x2="{x(value)}" y2="{y(1)}" stroke="#ddd"/>')
        parts.append(f'<line x1="{x(0)}" y1="{y(value)}" x2="{x(1)}" y2="{y(value)}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(value)}" y="{y(0) + 18}" text-anchor="middle">{10 * tick} %</text>')
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4}" text-anchor="end">{10 * tick} %</text>')
    parts.append(f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="#888" stroke-dasharray="4"/>')
    for at, (name, colour, lines) in enumerate(series):
        points = " ".join(f"{x(said):.1f},{y(was):.1f}" for *_, said, was in lines)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts += [f'<circle cx="{x(said):.1f}" cy="{y(was):.1f}" r="4" fill="{colour}"/>' for *_, said, was in lines]
        parts.append(f'<text x="{x(1) + 10}" y="{top + 20 + 18 * at}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{x(0.5)}" y="{y(0) + 42}" text-anchor="middle">stated chance of something better</text>')
    parts.append(f'<text transform="translate(14 {y(0.5)}) rotate(-90)" text-anchor="middle">how often it was left</text>')
    return "\n".join([*parts, "</svg>\n"])


def main():
    series = []
    for (rule, cases), colour in zip(rows().items(), ["#1565c0", "#c62828"]):
        constants = fit(cases)
        print(f"{rule}: constant {constants[0]:.3f}, waiting {constants[1]:.3f}, gain {constants[2]:.3f}")
        judged = held_out(cases)
        print("   stated     problems  cases   said    was")
        for low, high, problems, count, said, was in table(judged):
            print(f"   {low:4.0%} to {high:4.0%} {problems:6} {count:8} {said:6.1%} {was:6.1%}")
        series.append((f"{rule}, held out", colour, table(judged)))
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(diagram(series))


if __name__ == "__main__":
    main()
