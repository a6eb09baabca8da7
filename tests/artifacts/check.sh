#!/bin/sh
# Checks exported artifacts on a GPU: C (gcc and the driver's library), PyTorch, CuPy, whichever of them
# are there. One line for each shape: error over bound, time, and against the tuner's. Then plain calls of C, whose results
# are exact (plain.c).
#
#   check.sh FOLDER [SHAPE...]        what `export --format python` wrote
#
# Shapes as check.c has them. Without any: two that nobody tuned, one with odd sizes and rows that are longer by 5
# elements, a batch.
set -u
here=$(dirname "$0")
folder=$1
shift
[ $# -gt 0 ] || set -- 1500x700x900 3000x2500x640 777x1001x513+5 200x300x64x24
failed=0
if gcc --version > /dev/null 2>&1; then
    work=$(mktemp -d)
    driver=$(ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p' | head -1)
    build() {
        gcc -std=gnu99 -O2 -I "$folder" "$here/$1.c" "$folder/libgemm_tuned.so" -Wl,-rpath,"$(realpath "$folder")" \
            -o "$work/$1" "${driver:--l:libcuda.so.1}" -lm -ldl
    }
    build check && "$work/check" "$@" || failed=1
    build plain && "$work/plain" || failed=1
    rm -r "$work"
else
    echo "c      skipped: no gcc"
fi
for kind in torch cupy; do
    if python3 -c "import $kind" 2> /dev/null; then
        python3 -B "$here/check.py" "$folder" "$kind" "$@" || failed=1
    else
        echo "$kind  skipped: it is not installed"
    fi
done
exit $failed
