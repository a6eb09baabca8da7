#!/usr/bin/env bash
# Checks the files of a release in a folder, and runs the program of the archive and that of the wheel:
#
#     try.sh FOLDER
#
# Needs no Rust and no GPU. Without a Python 3 that has venv and pip, the wheel is left out, and this is said. PYTHON
# names another one than python3.
set -euo pipefail
python=${PYTHON:-python3}
cd "$1"
sha256sum --check --strict SHA256SUMS
place=$(mktemp --directory)
trap 'rm -rf "$place"' EXIT

# Asks a program for its version and for a kernel of the built-in database.
ask() {
    "$1" --version
    "$1" lookup 4096x4096x1024 --device-name h200 --quiet
}

for archive in gemm-tune-*.tar.gz; do
    tar --extract --gzip --file "$archive" --directory "$place"
    ask "$place/${archive%.tar.gz}/gemm-tune"
done
if "$python" -c 'import ensurepip, venv' 2> /dev/null; then
    "$python" -m venv "$place/user"
    "$place/user/bin/pip" install --quiet --no-index gemm_tune-*.whl
    ask "$place/user/bin/gemm-tune"
    "$place/user/bin/python" -B -c 'import gemm_tune; assert "error" not in gemm_tune.lookup(64); print("the package answers")'
else
    echo "the wheel is not installed: there is no $python with venv and pip"
fi
