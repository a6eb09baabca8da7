#!/bin/sh
# Times products through every surface of an export, beside the tuner, on a GPU. README.md says how and why.
#
#   run.sh GEMM_TUNE OUT_DIR [PROBLEMS]          [problems.txt of this folder]
#
# OUT_DIR gets the database, the exports, the programs, a CSV of each surface, what the tuner measured before and after
# them, and surfaces.csv. The table goes to standard output. The exit code is 1 where a result is wrong.
#
#   SURFACES_RUST     the Rust program, which is built beforehand: without it, that surface is missing
#   SURFACES_STAGES   what is done, in this order: tune export build before c c++ rust torch cupy jax after table [all]
#   SURFACES_TUNE     options of the search [--effort quick]
#   SURFACES_EXPORT   more options of the exports
#   SURFACES_DEVICE   [cuda:0]
#   SURFACES_LIMIT    most seconds of a surface [60], and twice as many of one that compiles
#   SURFACES_DRIVER   the driver's library, libcuda.so.1 [that of the system]
#   PYTHON            [python3]
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
    echo "usage: run.sh GEMM_TUNE OUT_DIR [PROBLEMS]" >&2
    exit 2
fi
program=$1
mkdir -p "$2" || exit
out=$(cd "$2" && pwd)
problems=${3:-$here/problems.txt}
stages=${SURFACES_STAGES:-tune export build before c c++ rust torch cupy jax after table}
device=${SURFACES_DEVICE:-cuda:0}
limit=${SURFACES_LIMIT:-60}
python=${PYTHON:-python3}
cache=$out/cache
driver=${SURFACES_DRIVER:-$(ldconfig -p 2> /dev/null | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -1)}
# A program that only links the name finds the library when it starts.
driver=${driver:--l:libcuda.so.1}
export PYTHONDONTWRITEBYTECODE=1

has() {
    case " $stages " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

say() {
    echo "$(($(date +%s) - began)) s: $*" >&2
}

# Writes what became of a surface.
status() {
    file=$(echo "$1" | tr ' ' '-')
    echo "$2" > "$out/$file.status"
    say "$1: $2"
}

# The last line of a file of messages, which is short enough for the table.
last_of() {
    tail -n 1 "$1" | cut -c 1-160
}

# Runs a surface within a limit: its name, the seconds, and the command.
surface() {
    name=$1 seconds=$2
    shift 2
    file=$out/$(echo "$name" | tr ' ' '-')
    timeout -k 5 "$seconds" "$@" > "$file.csv" 2> "$file.err"
    code=$?
    case $code in
    0) status "$name" "done" ;;
    124 | 137) status "$name" "ended after $seconds s" ;;
    *) status "$name" "exit code $code: $(last_of "$file.err")" ;;
    esac
}

# Runs a program that was built as a surface.
built() {
    if [ -x "$2" ]; then
        surface "$1" "$limit" "$2" "$problems"
    else
        status "$1" "not built: $(last_of "$out/build-$1.err")"
    fi
}

# Winners of the database, measured again by the tuner.
tuner() {
    "$python" "$here/problems.py" --winners "$out/tuned.toml" "$out/winners.toml" &&
        timeout -k 5 $((2 * limit)) "$program" db verify --db "$out/winners.toml" --device "$device" --cache "$cache" --json \
            > "$out/tuner-$1.json" 2> "$out/tuner-$1.err"
    say "the tuner, $1"
}

exported() {
    format=$1
    shift
    timeout -k 5 120 "$program" export --format "$format" -o "$out/$format" --db "$out/tuned.toml" --only-tuned --cache "$cache" \
        "$@" > "$out/export-$format.out" 2>&1 || say "export of $format: $(last_of "$out/export-$format.out")"
}

build_c() {
    cc -std=c99 -O2 -I "$out/c" -I "$here" "$here/measure.c" "$out/c/libgemm_tuned.so" -Wl,-rpath,"$out/c" -o "$out/measure-c" \
        "$driver" -lm
}

# By CMake: the library is installed, and the program finds its package.
build_cpp() {
    if ninja --version > /dev/null 2>&1; then
        CMAKE_GENERATOR=Ninja
        export CMAKE_GENERATOR
    fi
    cmake -S "$out/c" -B "$out/cmake-library" && cmake --build "$out/cmake-library" &&
        cmake --install "$out/cmake-library" --prefix "$out/installed" &&
        cmake -S "$here/cmake" -B "$out/cmake-program" -DCMAKE_PREFIX_PATH="$out/installed" -DCUDA_DRIVER="$driver" &&
        cmake --build "$out/cmake-program" && cp "$out/cmake-program/measure" "$out/measure-c++"
}

began=$(date +%s)
if has tune; then
    rm -f "$out/tuned.toml"
    "$python" "$here/problems.py" "$problems" "$out" > "$out/runs" || exit
    while read -r run; do
        # Options are words.
        timeout -k 5 200 "$program" $run ${SURFACES_TUNE:---effort quick} --device "$device" --db "$out/tuned.toml" --cache "$cache" -q \
            >> "$out/tune.out" 2>&1 < /dev/null || say "tuning $run: $(last_of "$out/tune.out")"
        say "tuned $run"
    done < "$out/runs"
fi
if has export; then
    rm -rf "$out/c" "$out/python" "$out/bundle"
    exported c --build ${SURFACES_EXPORT:-}
    exported python ${SURFACES_EXPORT:-}
    exported bundle ${SURFACES_EXPORT:-}
    say "exported"
fi
if has build; then
    rm -rf "$out/measure-c" "$out/measure-c++" "$out/cmake-library" "$out/cmake-program" "$out/installed"
    build_c > "$out/build-c.err" 2>&1 || say "no C program: $(last_of "$out/build-c.err")"
    build_cpp > "$out/build-c++.err" 2>&1 || say "no C++ program: $(last_of "$out/build-c++.err")"
    say "built"
fi
if has before; then tuner before; fi
if has c; then built c "$out/measure-c"; fi
if has c++; then built c++ "$out/measure-c++"; fi
if has rust; then
    if [ -x "${SURFACES_RUST:-}" ]; then
        surface rust "$limit" "$SURFACES_RUST" "$out/bundle" "$problems"
    else
        status rust "SURFACES_RUST names no program"
    fi
fi
if has torch; then
    # No processes that compile: there is nothing to compile beside the products.
    TORCHINDUCTOR_COMPILE_THREADS=1
    export TORCHINDUCTOR_COMPILE_THREADS
    for way in eager operator graphed; do
        surface "torch $way" "$limit" "$python" "$here/measure.py" "$out/python" "$problems" "torch $way"
    done
    surface "torch compiled" $((2 * limit)) "$python" "$here/measure.py" "$out/python" "$problems" "torch compiled"
fi
if has cupy; then surface cupy "$limit" "$python" "$here/measure.py" "$out/python" "$problems" cupy; fi
if has jax; then surface jax $((2 * limit)) "$python" "$here/measure.py" "$out/python" "$problems" jax; fi
if has after; then tuner after; fi
if has table; then
    "$python" "$here/table.py" "$out" "$problems" "$out/surfaces.csv"
    exit
fi
