// Runs an emitted harness on the host, with `stubs` in the place of CUDA. HARNESS is its file; its kernel is `gemm`.
#include <cuda_runtime.h>

#include HARNESS

static const bool is_known = make_known(&gemm);
