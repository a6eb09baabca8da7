/* Events on the stream of XLA, for measure.py: a call of XLA's foreign function interface that records the first event or
 * the last one, and functions that say what passed between them. C++17. measure.py compiles it with the headers of jaxlib. */
#include <cstdint>
#include <dlfcn.h>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

/* Types of the driver, of which no header is needed. */
using Context = void *;
using Event = void *;
using Stream = void *;

/* What is called of the driver. */
struct Driver {
    int (*create)(Event *, unsigned) = nullptr;
    int (*record)(Event, Stream) = nullptr;
    int (*query)(Event) = nullptr;
    int (*synchronize)(Event) = nullptr;
    int (*elapsed_ms)(float *, Event, Event) = nullptr;
    int (*context_of)(Stream, Context *) = nullptr;
    int (*push)(Context) = nullptr;
    int (*pop)(Context *) = nullptr;
    bool is_there = true;

    Driver()
    {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        const auto find = [&](auto &function, const char *name) {
            void *found = library == nullptr ? nullptr : dlsym(library, name);
            is_there = is_there && found != nullptr;
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
        };
        find(create, "cuEventCreate");
        find(record, "cuEventRecord");
        find(query, "cuEventQuery");
        find(synchronize, "cuEventSynchronize");
        find(elapsed_ms, "cuEventElapsedTime");
        find(context_of, "cuStreamGetCtx");
        find(push, "cuCtxPushCurrent_v2");
        find(pop, "cuCtxPopCurrent_v2");
    }
};

const Driver &driver()
{
    static const Driver found;
    return found;
}

Context context;
Event begin, end;
/* Whether the GPU had reached the first event when the last one was queued. */
bool is_late;

int recorded(Stream stream, bool is_last)
{
    const Driver &own = driver();
    int status = begin == nullptr ? own.create(&begin, 0) : 0;
    if (status == 0 && end == nullptr)
        status = own.create(&end, 0);
    if (status != 0)
        return status;
    if (is_last)
        is_late = own.query(begin) == 0;
    return own.record(is_last ? end : begin, stream);
}

/* Records an event after what its operand depends on. The result is there for others to depend on. */
ffi::Error record(Stream stream, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>, std::int64_t is_last)
{
    if (!driver().is_there)
        return ffi::Error(ffi::ErrorCode::kInternal, "libcuda.so.1 lacks a function");
    Context popped;
    int status = driver().context_of(stream, &context);
    if (status == 0)
        status = driver().push(context);
    if (status == 0) {
        status = recorded(stream, is_last != 0);
        driver().pop(&popped);
    }
    return status == 0 ? ffi::Error::Success()
                       : ffi::Error(ffi::ErrorCode::kInternal, "recording an event: status " + std::to_string(status));
}

} // namespace

/* Microseconds between the events; negative where they are not known. */
extern "C" double surfaces_us()
{
    const Driver &own = driver();
    Context popped;
    float ms = -1;
    if (!own.is_there || end == nullptr || own.push(context) != 0)
        return -1;
    if (own.synchronize(end) != 0 || own.elapsed_ms(&ms, begin, end) != 0)
        ms = -1;
    own.pop(&popped);
    return 1e3 * ms;
}

extern "C" int surfaces_is_late() { return is_late; }

XLA_FFI_DEFINE_HANDLER_SYMBOL(surfaces_record, record,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::int64_t>("is_last"));
