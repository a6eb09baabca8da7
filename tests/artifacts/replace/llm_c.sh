#!/usr/bin/env bash
# Replaces cublasSgemm in a program that was not written here: train_gpt2_fp32.cu of https://github.com/karpathy/llm.c (MIT),
# which trains GPT-2 with cublasSgemm and cublasSgemmStridedBatched. Fetches nothing.
#
#     llm_c.sh CHECKOUT EXPORT [WORD...]           CHECKOUT: of llm.c; EXPORT: a folder of `gemm-tune export --format c --build`
#     llm_c.sh --strict CHECKOUT EXPORT [WORD...]  in strict f32: the program takes tf32 where the GPU has it
#     llm_c.sh --compile CHECKOUT EXPORT           only compiles, without a GPU and without libraries of CUDA
#
# Compiles the program as it is and with the kernels, and runs both, with WORD... as their arguments. They print losses, which
# should agree, and times of steps. Runs need what llm.c's dev/download_starter_pack.sh fetches, or random weights and tokens
# of llm_c_files.py. The first steps prepare kernels: the mean of the last half is what counts. NVCC and NVCC_FLAGS name a
# compiler and further options.
set -euo pipefail
is_compiled= is_strict=
case $1 in
--compile) is_compiled=yes; shift ;;
--strict) is_strict=yes; shift ;;
esac
checkout=$(cd "$1" && pwd) export=$(cd "$2" && pwd)
shift 2
program=train_gpt2_fp32 work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT

# What is added: a handle and the header behind the headers of CUDA, and a call behind that of cublasCreate.
header='#include "gemm_tuned.h"\ngemm_tuned *tuned_kernels;\n#define GEMM_TUNED_CUBLAS_HANDLE tuned_kernels\n#include "gemm_tuned_cublas.h"'
create='    if (gemm_tuned_create(\&tuned_kernels, GEMM_TUNED_CURRENT_CONTEXT) != 0) exit(1);'
cp "$checkout/$program.cu" "$work/before.cu"
[ -z "$is_strict" ] || sed -i 's/\(int enable_tf32 = \).*/\10;/' "$work/before.cu"
sed -e "0,/^#include <cublas_v2.h>/s//&\n$header/" -e "0,/cublasCreate(&cublas_handle).*/s//&\n$create/" \
    "$work/before.cu" > "$work/tuned.cu"
added=$(diff "$work/before.cu" "$work/tuned.cu" | grep -c '^>' || true)
if [ "$added" != 5 ]; then
    printf '%s/%s.cu is not as expected: %s lines are added, and not 5\n' "$checkout" "$program" "$added" >&2
    exit 1
fi

# Compiles a program of the two.
build() {
    # shellcheck disable=SC2086 # several options
    ${NVCC:-nvcc} ${NVCC_FLAGS:-} -O3 --use_fast_math -std=c++17 -I "$checkout" -I "$export" "$work/$1.cu" "${@:2}"
}
if [ -n "$is_compiled" ]; then
    for name in before tuned; do
        build "$name" -c -o "$work/$name.o"
    done
    echo "both compile; what the second calls:"
    nm -C "$work/tuned.o" | grep -E ' U (cublasSgemm|gemm_tuned_)'
    exit
fi
build before -lcublas -lcublasLt -o "$work/before"
build tuned "$export/libgemm_tuned.a" -lcublas -lcublasLt -ldl -o "$work/tuned"
cd "$checkout"
for name in before tuned before tuned; do
    printf '\n== %s\n' "$name"
    "$work/$name" "$@" > "$work/said.txt"
    grep -E '^(step|val loss)' "$work/said.txt" | sed -n '1,4p;$p'
    grep '^step' "$work/said.txt" | sed 's/.*(\([0-9.]*\) ms.*/\1/' \
        | awk '{ ms[NR] = $1 } END { for (i = int(NR / 2) + 1; i <= NR; i++) sum += ms[i]; printf "%.3f ms a step\n", sum / (NR - int(NR / 2)) }'
done
