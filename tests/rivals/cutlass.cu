// A product of CUTLASS's collective builder, as its users instantiate it. `cutlass.sh` compiles one for each tile,
// cluster and schedule; `tensor_cores.py` times them beside others. A rival of gemm-tune and no part of it.
//
// Macros: NAME of the function, ELEMENT, OUT and SUM (types of operands, of C and of sums), B_BY_COLUMNS (whether B is
// stored N x K), TILE_M, TILE_N, TILE_K, CLUSTER_M, CLUSTER_N, MAINLOOP, EPILOGUE and SCHEDULER.
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/kernel_hardware_info.hpp>
#include <cutlass/util/packed_stride.hpp>

namespace {

using Tile = cute::Shape<cute::Int<TILE_M>, cute::Int<TILE_N>, cute::Int<TILE_K>>;
using Cluster = cute::Shape<cute::Int<CLUSTER_M>, cute::Int<CLUSTER_N>, cute::_1>;
using RowMajor = cutlass::layout::RowMajor;
using LayoutB = std::conditional_t<B_BY_COLUMNS, cutlass::layout::ColumnMajor, RowMajor>;
constexpr int ALIGNMENT = 16 / sizeof(ELEMENT), OUT_ALIGNMENT = 16 / sizeof(OUT);

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, SUM, SUM, void, RowMajor, OUT_ALIGNMENT, OUT, RowMajor,
    OUT_ALIGNMENT, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, ELEMENT, RowMajor, ALIGNMENT, ELEMENT, LayoutB, ALIGNMENT, SUM,
    Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue,
                                                    cutlass::gemm::SCHEDULER>;
using Product = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

}  // namespace

// Multiplies on a stream. Returns 0, or what went wrong.
extern "C" int
NAME(const void* a, const void* b, void* c, int m, int n, int k, void* workspace, size_t workspace_bytes,
     cudaStream_t stream)
{
    // Multiprocessors are counted once: the call would be a part of the host's time.
    static const int multiprocessors = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
    typename Product::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {m, n, k, 1},
        {static_cast<const ELEMENT*>(a), cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1}),
         static_cast<const ELEMENT*>(b), cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1})},
        {{SUM(1), SUM(0)},
         nullptr, cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}),
         static_cast<OUT*>(c), cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})}};
    arguments.hw_info.sm_count = multiprocessors;
    Product product;
    if (Product::get_workspace_size(arguments) > workspace_bytes)
        return -1;
    if (auto status = product.can_implement(arguments); status != cutlass::Status::kSuccess)
        return static_cast<int>(status);
    if (auto status = product.initialize(arguments, workspace, stream); status != cutlass::Status::kSuccess)
        return static_cast<int>(status);
    return static_cast<int>(product.run(stream));
}
