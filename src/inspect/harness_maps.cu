
// A tensor map before it is encoded. Strides are in bytes, and begin with that of the second dimension.
struct MapFields {
    CUtensorMapDataType type;
    u32 rank;
    cuuint64_t extents[5], strides[4];
    cuuint32_t box[5];
    CUtensorMapSwizzle swizzle;
};

// Encodes a map of what begins `offset` bytes into an operand. Elements beyond its extents read as zero. The driver's
// function is looked up, so that the program links without libcuda.
inline CUtensorMap encoded(const MapFields& fields, void* operand, u64 offset)
{
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
    GEMM_TUNE_CHECK(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status));
#else
    GEMM_TUNE_CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &status));
#endif
    if (found == nullptr || status != cudaDriverEntryPointSuccess) {
        std::fprintf(stderr, "the driver has no cuTensorMapEncodeTiled: it needs CUDA 12.0 or later\n");
        std::exit(1);
    }
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    CUtensorMap map;
    const CUresult result = ((decltype(&cuTensorMapEncodeTiled))found)(
        &map, fields.type, fields.rank, (char*)operand + offset, fields.extents, fields.strides, fields.box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, fields.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", (int)result);
        std::exit(1);
    }
    return map;
}
