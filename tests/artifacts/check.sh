#!/bin/sh
# Checks exported artifacts on a GPU: C (gcc and the driver's library), PyTorch, CuPy, whichever of them
# are there. One line for each shape: error over bound, time, and against the tuner's.
#
#   check.sh C_FOLDER PYTHON_FOLDER [SHAPE...]
#
# Without shapes: tuned ones of the manifest (small, medium, large), two that nobody tuned, one with odd
# sizes and rows that are longer by 5 elements.
set -u
here=$(dirname "$0")
c=$1
python=$2
shift 2
if [ $# -eq 0 ]; then
    set -- $(python3 - "$python/manifest.json" <<'PICK'
import json, sys
kernels = json.load(open(sys.argv[1]))["kernels"]
own = [k for k in kernels if k["tuned"] and (k["problem"]["dtype"], k["problem"]["layout"], k["problem"]["batch"]) == ("f32", "nn", 1)]
own.sort(key=lambda k: k["median_us"])
own = [k for k in own if k["problem"]["m"] * k["problem"]["n"] <= 1 << 26]
for k in [own[len(own) // 6], own[len(own) // 2], own[-1]]:
    p = k["problem"]
    print(f"{p['m']}x{p['n']}x{p['k']}:{k['median_us']}")
PICK
) 1500x700x900 3000x2500x640 777x1001x513+5
fi
failed=0
if gcc --version > /dev/null 2>&1; then
    work=$(mktemp -d)
    driver=$(ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p' | head -1)
    if gcc -std=c99 -O2 -I "$c" \
        "$here/check.c" "$c/gemm_tuned.c" -o "$work/check" "${driver:--l:libcuda.so.1}" -lm; then
        "$work/check" "$@" || failed=1
    else
        failed=1
    fi
    rm -r "$work"
else
    echo "c      skipped: no gcc"
fi
for kind in torch cupy; do
    if python3 -c "import $kind" 2> /dev/null; then
        python3 -B "$here/check.py" "$python" "$kind" "$@" || failed=1
    else
        echo "$kind  skipped: it is not installed"
    fi
done
exit $failed
