// In the place of the CUDA runtime, for tests without a GPU: memory is the host's, and a launch calls its kernel thread
// after thread. It serves kernels whose threads do not wait for each other.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define CUDART_VERSION 13000

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidDeviceFunction = 98 };
inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorInvalidDeviceFunction"; }
inline const char* cudaGetErrorString(cudaError_t) { return "invalid device function"; }

typedef void* cudaStream_t;
typedef void* cudaEvent_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr { cudaDevAttrL2CacheSize };
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    union {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

inline cudaError_t cudaMalloc(void** to, size_t bytes)
{
    *to = std::malloc(bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int byte, size_t bytes)
{
    std::memset(to, byte, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) { return cudaMemset(to, byte, bytes); }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 4096, cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t)
{
    return *milliseconds = 0.5f, cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum { cudaEnableDefault };
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** found, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status)
{
    *found = nullptr;
    *status = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) { return *at += value; }
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long value)
{
    return *at = value > *at ? value : *at;
}
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value)
{
    return *at = value < *at ? value : *at;
}
template <typename To, typename From>
To same_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "bits are kept");
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
inline long long __double_as_longlong(double value) { return same_bits<long long>(value); }

template <typename Call>
void for_each_thread(const cudaLaunchConfig_t* how, Call call)
{
    gridDim = how->gridDim;
    blockDim = how->blockDim;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
                for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
                    for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
                        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
                            call();
}

template <typename... Parameters, typename... Values>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* how, void (*kernel)(Parameters...), Values... values)
{
    for_each_thread(how, [&] { kernel(Parameters(values)...); });
    return cudaSuccess;
}

// Kernels that are launched by their address: what calls them with a list of pointers to their arguments.
inline std::map<const void*, std::function<void(void**)>> known_kernels;

template <typename... Parameters, size_t... AT>
void call_with(void (*kernel)(Parameters...), void** arguments, std::index_sequence<AT...>)
{
    kernel(*(Parameters*)arguments[AT]...);
}

template <typename... Parameters>
bool make_known(void (*kernel)(Parameters...))
{
    known_kernels[(const void*)kernel] = [kernel](void** arguments) {
        call_with(kernel, arguments, std::index_sequence_for<Parameters...>());
    };
    return true;
}

inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* kernel, void** arguments)
{
    const auto known = known_kernels.find(kernel);
    if (known == known_kernels.end())
        return cudaErrorInvalidDeviceFunction;
    for_each_thread(how, [&] { known->second(arguments); });
    return cudaSuccess;
}
