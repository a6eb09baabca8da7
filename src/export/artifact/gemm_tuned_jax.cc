/* What XLA calls for the products of gemm_tuned_jax.py: reads buffers and attributes, and queues the product of the
 * library. C++17. gemm_tuned_jax.py compiles it with the headers of jaxlib when it is first used. */
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "gemm_tuned.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

/* Places in the attribute `problem`. */
enum Field { DTYPE, DTYPE_B, DTYPE_D, COMPUTE, TRANSPOSE_A, TRANSPOSE_B, M, N, K, BATCH, STRIDE_A, STRIDE_B, FIELDS };

/* The handle for the primary context of a GPU, which XLA uses too. It lives as long as the process. */
int handle_of(int device, gemm_tuned **found)
{
    static std::mutex lock;
    static auto &handles = *new std::map<int, gemm_tuned *>;
    const std::lock_guard<std::mutex> locked(lock);
    gemm_tuned *&own = handles[device];
    int status = GEMM_TUNED_SUCCESS;
    if (own == nullptr) {
        status = gemm_tuned_create(&own, device);
        if (status != GEMM_TUNED_SUCCESS)
            own = nullptr;
        else
            status = gemm_tuned_set_allocation(own, GEMM_TUNED_NO_ALLOCATION);
    }
    *found = own;
    return status;
}

/* Where the address of an operand stands; NULL for another word. */
const void **place_of(gemm_tuned_operands *operands, std::string_view name)
{
    if (name == "c")
        return &operands->c;
    if (name == "bias")
        return &operands->bias;
    if (name == "row_scale")
        return &operands->row_scale;
    if (name == "col_scale")
        return &operands->col_scale;
    if (name == "residual")
        return &operands->residual;
    return name == "mul" ? &operands->mul : nullptr;
}

ffi::Error failure(const std::string &what) { return ffi::Error(ffi::ErrorCode::kInternal, "gemm_tuned: " + what); }

/* XLA aligns buffers to less than a workspace has to be: gemm_tuned_jax.py asks for so much more. */
constexpr std::uintptr_t ALIGNMENT = 256;

/* A product. `names` are the operands behind A and B, separated by commas; `factors` are alpha and beta. The second result
 * is the workspace. */
ffi::Error multiply(void *stream, std::int32_t device, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::RemainingArgs others,
                    ffi::Result<ffi::AnyBuffer> d, ffi::Result<ffi::AnyBuffer> workspace,
                    ffi::Span<const std::int64_t> numbers, std::string_view epilogue, std::string_view names,
                    ffi::Span<const double> factors)
{
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    const std::string operations(epilogue);
    const std::int64_t *n = numbers.begin();
    gemm_tuned *tuned = nullptr;
    std::size_t place = 0;
    if (numbers.size() != FIELDS || factors.size() != 2)
        return failure("the attributes are of another version: export the modules and the library together");
    problem.dtype = static_cast<int>(n[DTYPE]);
    problem.dtype_b = static_cast<int>(n[DTYPE_B]);
    problem.dtype_d = static_cast<int>(n[DTYPE_D]);
    problem.compute = static_cast<int>(n[COMPUTE]);
    problem.transpose_a = static_cast<int>(n[TRANSPOSE_A]);
    problem.transpose_b = static_cast<int>(n[TRANSPOSE_B]);
    problem.m = n[M];
    problem.n = n[N];
    problem.k = n[K];
    problem.batch = n[BATCH];
    problem.stride_a = n[STRIDE_A];
    problem.stride_b = n[STRIDE_B];
    problem.stride_d = problem.batch > 1 ? problem.m * problem.n : 0;
    problem.epilogue = operations.c_str();

    const float alpha = static_cast<float>(factors[0]), beta = static_cast<float>(factors[1]);
    const int whole_alpha = static_cast<int>(factors[0]), whole_beta = static_cast<int>(factors[1]);
    const bool is_whole = problem.dtype_d == GEMM_TUNED_I32;
    operands.a = a.untyped_data();
    operands.b = b.untyped_data();
    operands.d = d->untyped_data();
    operands.alpha = is_whole ? static_cast<const void *>(&whole_alpha) : &alpha;
    operands.beta = is_whole ? static_cast<const void *>(&whole_beta) : &beta;
    while (!names.empty()) {
        const std::string_view name = names.substr(0, names.find(','));
        const void **address = place_of(&operands, name);
        const auto buffer = others.get<ffi::AnyBuffer>(place++);
        if (address == nullptr || !buffer.has_value())
            return failure("there is no operand `" + std::string(name) + "`");
        *address = buffer->untyped_data();
        names.remove_prefix(name.size() == names.size() ? name.size() : name.size() + 1);
    }

    int status = handle_of(device, &tuned);
    if (status != GEMM_TUNED_SUCCESS)
        return failure("opening GPU " + std::to_string(device) + " failed: " + gemm_tuned_status_string(status));
    const std::uintptr_t given = reinterpret_cast<std::uintptr_t>(workspace->untyped_data());
    const std::uintptr_t skipped = (ALIGNMENT - given % ALIGNMENT) % ALIGNMENT;
    const bool is_lent = workspace->size_bytes() > skipped;
    status = gemm_tuned_run(tuned, &problem, &operands, is_lent ? reinterpret_cast<void *>(given + skipped) : nullptr,
                            is_lent ? workspace->size_bytes() - skipped : 0, stream);
    if (status != GEMM_TUNED_SUCCESS)
        return failure(std::string("the product failed: ") + gemm_tuned_status_string(status));
    return ffi::Error::Success();
}

/* What is called where a product runs on the host. */
ffi::Error refuse(ffi::RemainingArgs, ffi::RemainingRets, ffi::Dictionary)
{
    return failure("these kernels run on NVIDIA GPUs, and JAX runs this on the host: install jax with CUDA, and move the "
                   "operands to a GPU");
}

} // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(gemm_tuned_jax_multiply, multiply,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const std::int64_t>>("problem")
                                  .Attr<std::string_view>("epilogue")
                                  .Attr<std::string_view>("operands")
                                  .Attr<ffi::Span<const double>>("factors"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(gemm_tuned_jax_refuse, refuse,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs());
