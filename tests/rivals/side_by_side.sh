#!/bin/sh
# gemm-tune beside Triton's autotuner and Kernel Tuner on the GPU of this machine, each from nothing, and
# then their winners timed in turn. One table of all shapes: OUT_DIR/side_by_side.md and .csv.
#
#   side_by_side.sh OUT_DIR SHAPE...      shapes as lines of --shapes: 4096x4096x1024, "64x64x64 tn x256"
#
# No test: nothing here passes or fails. What breaks is a row of the table with its message. It needs
# PyTorch and Triton, and kernel_tuner, numpy and cuda-bindings for Kernel Tuner. For a shape it takes
# about four times SECONDS_EACH, what Triton takes (1 to 4 minutes) and a minute.
#
#   GEMM_TUNE      the program [gemm-tune]
#   DEVICE         as gemm-tune's --device [auto]
#   PYTHON         [python3]
#   SECONDS_EACH   for each search of gemm-tune and Kernel Tuner [30]
#   TRITON_LIMIT_S for Triton's autotuner in one precision; it has no budget of its own [240]
#   KT_STRATEGIES  [random_sample hybrid_vndx]; kernel_tuner_blocktile.py says why these
set -u
here=$(cd "$(dirname "$0")" && pwd)
gemm_tune=$(command -v "${GEMM_TUNE:-gemm-tune}") && gemm_tune=$(realpath "$gemm_tune") || exit
device=${DEVICE:-auto}
python=${PYTHON:-python3}
seconds=${SECONDS_EACH:-30}
triton_limit=${TRITON_LIMIT_S:-240}
strategies=${KT_STRATEGIES:-random_sample hybrid_vndx}
if [ $# -lt 2 ]; then
    echo "usage: side_by_side.sh OUT_DIR SHAPE..." >&2
    exit 2
fi
mkdir -p "$1" || exit
out=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
began=$(date +%s)
# Nothing is waited for longer than this: a budget ends a search, not what comes after it.
patience=$((2 * seconds + 60))

say() {
    echo "[$(($(date +%s) - began)) s] $*"
}

# The options of gemm-tune for a shape, words without spaces.
options() {
    for word in $1; do
        case $word in
            x*) printf ' --batch %s' "${word#x}" ;;
            *x*) printf ' --shape %s' "$word" ;;
            *) printf ' --layout %s' "$word" ;;
        esac
    done
}

# gemm-tune from an empty cache: NAME.json is what it says, NAME.wall the seconds that the process took.
tune() {
    name=$1
    shift
    say "$shape: gemm-tune, $name"
    since=$(date +%s.%N)
    timeout -s INT "$patience" "$gemm_tune" tune $problem --device "$device" --fresh \
        --budget "${seconds}s" --cache "$work/$stem-$name" --db "$dir/$name.toml" --json -q "$@" \
        > "$dir/$name.json" 2> "$dir/$name.err" || say "exit code $?: $(tail -n 1 "$dir/$name.err")"
    echo "$since $(date +%s.%N)" | awk '{ printf "%.2f\n", $2 - $1 }' > "$dir/$name.wall"
}

triton() {
    set -- "$shape" --csv "$dir/triton.csv" --limit-s "$triton_limit"
    # The winner that was just found, as a Python module: Triton's are timed in turn with it.
    if timeout "$patience" "$gemm_tune" export --format python --only-tuned -q \
        --db "$dir/all.toml" --cache "$work/$stem-all" --output "$work/$stem-python" \
        > "$dir/export.err" 2>&1; then
        set -- "$@" --beside "$work/$stem-python"
    else
        say "no kernel beside Triton's: $(tail -n 1 "$dir/export.err")"
    fi
    say "$shape: Triton's autotuner"
    "$python" "$here/triton_autotuner.py" "$@" 2> "$dir/triton.err" \
        || say "exit code $?: $(tail -n 1 "$dir/triton.err")"
}

kernel_tuner() {
    say "$shape: Kernel Tuner, $1"
    # It leaves sources of kernels that break in the folder where it runs.
    (cd "$work" && timeout "$patience" "$python" "$here/kernel_tuner_blocktile.py" "$shape" --strategy "$1" \
        --seconds "$seconds" --gemm-tune "$gemm_tune" --out "$dir/kernel_tuner-$1.json" \
        > /dev/null 2> "$dir/kernel_tuner-$1.err") \
        || say "exit code $?: $(tail -n 1 "$dir/kernel_tuner-$1.err")"
}

# Everyone's winners in one final, with the libraries.
compare() {
    say "$shape: the winners in turn"
    set --
    for config in $("$python" "$here/table.py" --configs "$dir"); do
        set -- "$@" --config "$config"
    done
    timeout "$patience" "$gemm_tune" compare $problem --device "$device" --db "$dir/all.toml" \
        --cache "$work/$stem-all" --json -q "$@" > "$dir/compare.json" 2> "$dir/compare.err" \
        || say "exit code $?: $(tail -n 1 "$dir/compare.err")"
}

for shape in "$@"; do
    problem=$(options "$shape")
    stem=$(echo "$shape" | tr ' ' '_')
    dir=$out/$stem
    rm -rf "$dir"
    mkdir -p "$dir"
    tune all
    tune blocktile --family blocktile
    triton
    for strategy in $strategies; do
        kernel_tuner "$strategy"
    done
    compare
    # After each shape, so that a run which is cut short leaves a table.
    "$python" "$here/table.py" "$out"
done
say "$out/side_by_side.md"
