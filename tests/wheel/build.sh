#!/usr/bin/env bash
# Builds the wheel from what `cargo build` has built, installs it in a new environment, and runs the program, the package and
# `python -m gemm_tune` from there. Needs Python 3 with venv and pip, and the network or a pip cache for maturin.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
folder=target/test-wheel

# Crates with their features, as the program is compiled, and as it is for tests.
features() {
    cargo tree --offline --prefix none --format '{p} {f}' --edges "$1" | sed 's/ (\*)$//' | sort -u
}
of_program=$(features normal,build)
of_tests=$(features normal,build,dev)
others=$(comm -23 <(echo "$of_program") <(echo "$of_tests"))
if [ -n "$others" ]; then
    printf 'error: tests enable other features of these crates, so that all that uses them is compiled again: %s\n' "$others"
    printf 'help: name the features in Cargo.toml, at the crate or below `Not used here`\n'
    exit 1
fi
rm -rf "$folder"
python3 -m venv "$folder/maker"
"$folder/maker/bin/pip" install --quiet 'maturin>=1.7,<2'
"$folder/maker/bin/maturin" build --quiet --profile dev --offline --target-dir target --out "$folder/wheels"
python3 -m venv "$folder/user"
"$folder/user/bin/pip" install --quiet --no-index "$folder"/wheels/gemm_tune-*.whl
cd "$folder"
unset GEMM_TUNE_PROGRAM PYTHONPATH
user/bin/gemm-tune --version
user/bin/gemm-tune lookup 64 --quiet > lookup.txt
GEMM_TUNE_CACHE="$root/target/test-cache" user/bin/python -B "$root/tests/wheel/package.py" "$PWD/tuned" "$root/target/test-cache"
ls -l wheels
