#!/bin/sh
# Traces the transformer of tests/pytorch/transformer.py, tunes what it multiplies, and prints the expected gain and the
# measured one. Needs a GPU, PyTorch, and gemm-tune on the path; runs in the repository.
#
#     traced.sh TYPE FOLDER       TYPE: f32, tf32, f16 or bf16; FOLDER: a new folder for what is written
set -eu
type=$1 folder=$2
program=tests/pytorch/transformer.py
mkdir -p "$folder"
gemm-tune trace -o "$folder/trace.json" -- python3 $program --dtype "$type"
gemm-tune --trace "$folder/trace.json" --db "$folder/db.toml" --quiet
gemm-tune report --trace "$folder/trace.json" --db "$folder/db.toml" -o "$folder/trace.html" --output-format table
gemm-tune export --format python -o "$folder/python" --db "$folder/db.toml" --only-tuned
python3 -B $program --dtype "$type" "$folder/python"
