#!/bin/sh
# Compiles products of CUTLASS for Hopper into a library that tensor_cores.py times.
#
#   cutlass.sh CUTLASS_INCLUDE OUT.so [bf16|f16|i8]
#
# CUTLASS_INCLUDE is the folder `include` of CUTLASS 4, into which tools/util/include/cutlass/util was copied. Both
# operands have K contiguous (layout nt). One product takes a minute or more to compile; JOBS are compiled at once [all
# cores].
#
#   NVCC   [nvcc]
#   FLAGS  further options
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$1
out=$2
case ${3:-bf16} in
    bf16) types="-DELEMENT=cutlass::bfloat16_t -DOUT=cutlass::bfloat16_t -DSUM=float" bytes=2 ;;
    f16) types="-DELEMENT=cutlass::half_t -DOUT=cutlass::half_t -DSUM=float" bytes=2 ;;
    i8) types="-DELEMENT=int8_t -DOUT=int32_t -DSUM=int32_t" bytes=1 ;;
    *) echo "unknown type $3" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Tile of C, cluster, mainloop and epilogue, scheduler.
cat > "$work/list" << 'END'
64 64 1 1 Pingpong . Persistent
64 128 1 1 Pingpong . Persistent
128 128 2 1 Pingpong . Persistent
128 192 2 1 Pingpong . Persistent
128 128 2 1 Cooperative Cooperative StreamK
128 256 2 1 Cooperative Cooperative Persistent
256 128 2 1 Cooperative Cooperative Persistent
END
export here include types bytes work
compile() {
    set -- $1
    [ "$6" = . ] && epilogue= || epilogue=$6
    ${NVCC:-nvcc} -std=c++17 -arch=sm_90a -O3 -DNDEBUG -w --expt-relaxed-constexpr ${FLAGS:-} -I"$include" -Xcompiler -fPIC \
        $types -DB_BY_COLUMNS=1 "-DNAME=product_$1x$2_$3x$4_$5_$7" "-DTILE_M=$1" "-DTILE_N=$2" "-DTILE_K=$((128 / bytes))" \
        "-DCLUSTER_M=$3" "-DCLUSTER_N=$4" "-DMAINLOOP=KernelTmaWarpSpecialized$5" \
        "-DEPILOGUE=TmaWarpSpecialized$epilogue" "-DSCHEDULER=$7Scheduler" \
        -c "$here/cutlass.cu" -o "$work/$1x$2_$5_$7.o"
}
while read -r line; do
    while [ "$(jobs -p | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do
        sleep 1
        jobs > /dev/null
    done
    compile "$line" &
done < "$work/list"
wait
${NVCC:-nvcc} -shared ${FLAGS:-} -o "$out" "$work"/*.o
