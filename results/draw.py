"""Draws problems as users have them, by a seed: one a line, as `gemm-tune --shapes` reads them.

    python3 results/draw.py SEED COUNT [MAX_OPERATIONS]     [2e12]

Half have extents of 64 to 16384, a quarter have M or N up to 16, and a quarter have extents from 1 on, all
log-uniform. All layouts are as frequent, a fifth are batches of 2 to 256, and a quarter have rows of odd
length. No problem has operands of more than 4 GB.
"""

import random
import sys

MAX_BYTES = 4e9


def log_uniform(rng, low, high):
    """An integer from low to high whose logarithm is uniform."""
    return min(high, int(low * (high / low + 1 / low) ** rng.random()))


def draw(rng):
    """A problem: extents, layout and batch."""
    kind = rng.choice(["plain", "plain", "narrow", "any"])
    extents = [log_uniform(rng, 1 if kind == "any" else 64, 16384) for _ in range(3)]
    if kind == "narrow":
        extents[rng.randrange(2)] = log_uniform(rng, 1, 16)
    layout = rng.choice(["nn", "nt", "tn", "tt"])
    batch = log_uniform(rng, 2, 256) if rng.random() < 0.2 else 1
    if rng.random() < 0.25:
        extents = [extent | 1 for extent in extents]
    else:
        # Rows of most users are multiples of eight elements.
        extents = [extent if extent < 64 else extent // 8 * 8 for extent in extents]
    return extents, layout, batch


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    limit = float(sys.argv[3]) if len(sys.argv) > 3 else 2e12
    rng = random.Random(seed)
    drawn = []
    while len(drawn) < count:
        (m, n, k), layout, batch = draw(rng)
        small = 2 * m * n * k * batch <= limit and 4 * batch * (m * k + k * n + m * n) <= MAX_BYTES
        line = f"{m}x{n}x{k}" + (f" {layout}" if layout != "nn" else "") + (f" x{batch}" if batch > 1 else "")
        if small and line not in drawn:
            drawn.append(line)
    print(f"# {count} problems by `python3 results/draw.py {' '.join(sys.argv[1:])}`.")
    print("\n".join(drawn))


if __name__ == "__main__":
    main()
