#!/bin/sh
# Searches for every shape of a file as if nothing were known, each from an empty cache, and says how
# soon each search came how near to the best that is known:
#
#   fresh.sh OUT_DIR [SHAPES]             [search-spaces/shapes/compare.txt]
#
# OUT_DIR gets, for line I of the shapes, what the run says (I.json), its journal (I.jsonl) and the
# seconds that it took (I.wall), and for each GPU a database: a copy of DB in which the records of its
# shapes are those of this run. A record takes part in the final of its shape, and in nothing before.
# What was begun before is not run again; that of line I is once OUT_DIR/begun/I is removed.
#
#   GEMM_TUNE  the program [gemm-tune]
#   DB         whose records take part [results/nvidia-h200.toml]
#   GPUS       how many GPUs share the shapes [all that nvidia-smi lists]; 0: the cpu device, without records
#   CORES      of each GPU's compilers [16]
#   BUDGET     of a search [60s]
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
    echo "usage: fresh.sh OUT_DIR [SHAPES]" >&2
    exit 2
fi
program=${GEMM_TUNE:-gemm-tune}
db=${DB:-$here/nvidia-h200.toml}
gpus=${GPUS:-$(nvidia-smi -L | wc -l)}
if [ -z "${GPUS:-}" ] && [ "$gpus" = 0 ]; then
    echo "nvidia-smi lists no GPU: set GPUS, to 0 for the cpu device" >&2
    exit 2
fi
cores=${CORES:-16}
shapes=${2:-$here/../search-spaces/shapes/compare.txt}
mkdir -p "$1/begun" || exit
out=$(cd "$1" && pwd)
grep -v -e '^#' -e '^ *$' "$shapes" > "$out/shapes"

# The shapes that nobody has begun, one after another.
worker() {
    gpu=$1
    device=cuda:$gpu
    own=$out/gpu$gpu.toml
    if [ "$gpus" = 0 ]; then
        device=cpu
    elif [ ! -e "$own" ]; then
        cp "$db" "$own" || exit
    fi
    number=0
    while read -r line; do
        number=$((number + 1))
        mkdir "$out/begun/$number" 2> /dev/null || continue
        echo "$line" > "$out/$number.txt"
        cache=$(mktemp -d)
        since=$(date +%s.%N)
        taskset -c $((gpu * cores))-$((gpu * cores + cores - 1)) "$program" --shapes "$out/$number.txt" \
            --fresh --force --budget "${BUDGET:-60s}" --device "$device" --cache "$cache" --db "$own" \
            --json -q > "$out/$number.json" 2> "$out/$number.err" < /dev/null
        code=$?
        echo "$since $(date +%s.%N)" | awk '{ printf "%.1f\n", $2 - $1 }' > "$out/$number.wall"
        find "$cache" -name '*.jsonl' -exec cp {} "$out/$number.jsonl" \;
        rm -rf "$cache"
        echo "$line: $(cat "$out/$number.wall") s, exit code $code"
    done < "$out/shapes"
}

gpu=0
while [ "$gpu" -lt "$((gpus > 0 ? gpus : 1))" ]; do
    worker "$gpu" &
    gpu=$((gpu + 1))
done
wait
python3 "$here/fresh.py" "$out" "$db"
