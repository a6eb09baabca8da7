"""Writes files for train_gpt2_fp32 of llm.c into a checkout: a GPT-2 of random weights, and random tokens.

    llm_c_files.py CHECKOUT         in place of what its dev/download_starter_pack.sh fetches

The model has the sizes of GPT-2 with 124 million parameters, and weights of a standard deviation of 0.02, as before
training. Losses begin near ln(50257) = 10.82.
"""

import pathlib
import sys

import numpy as np

# Header fields of llm.c's checkpoints (version 3: the padded vocabulary) and of its token files (version 1).
MODEL, TOKENS = (20240326, 3), (20240520, 1)
LENGTH, WORDS, LAYERS, HEADS, WIDTH, PADDED = 1024, 50257, 12, 12, 768, 50304
TRAINED, VALIDATED = 64 * 4096, 21 * 4096
generator = np.random.default_rng(1)


def header(*fields):
    return np.asarray([*fields, *[0] * (256 - len(fields))], "int32").tobytes()


def matrix(*shape):
    return (generator.standard_normal(shape, "float32") * np.float32(0.02)).tobytes()


def constant(value, *shape):
    return np.full(shape, value, "float32").tobytes()


def parameters():
    """Those of the model, in the order of llm.c's ParameterTensors."""
    yield matrix(PADDED, WIDTH)
    yield matrix(LENGTH, WIDTH)
    yield from (constant(1, LAYERS, WIDTH), constant(0, LAYERS, WIDTH))
    yield from (matrix(LAYERS, 3 * WIDTH, WIDTH), constant(0, LAYERS, 3 * WIDTH))
    yield from (matrix(LAYERS, WIDTH, WIDTH), constant(0, LAYERS, WIDTH))
    yield from (constant(1, LAYERS, WIDTH), constant(0, LAYERS, WIDTH))
    yield from (matrix(LAYERS, 4 * WIDTH, WIDTH), constant(0, LAYERS, 4 * WIDTH))
    yield from (matrix(LAYERS, WIDTH, 4 * WIDTH), constant(0, LAYERS, WIDTH))
    yield from (constant(1, WIDTH), constant(0, WIDTH))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = pathlib.Path(sys.argv[1])
    with open(checkout / "gpt2_124M.bin", "wb") as file:
        file.write(header(*MODEL, LENGTH, WORDS, LAYERS, HEADS, WIDTH, PADDED))
        for part in parameters():
            file.write(part)
    folder = checkout / "dev/data/tinyshakespeare"
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", TRAINED), ("val", VALIDATED)):
        tokens = generator.integers(0, WORDS, count).astype("uint16").tobytes()
        (folder / f"tiny_shakespeare_{name}.bin").write_bytes(header(*TOKENS, count) + tokens)


main()
