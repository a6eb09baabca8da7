/* Workspaces that callers do not lend ---------------------------------------------------------------------- */

/* Makes the pool. It keeps what was given back, so that later calls need no memory of the system. */
static int make_pool(gemm_tuned *tuned)
{
    pool_properties properties;
    unsigned long long all = ~0ull;
    int has_pools = 0, pushed, status;
    tuned->allocates = 1;
    if (tuned->cuda.make_pool == NULL
        || tuned->cuda.device_attribute(&has_pools, MEMORY_POOLS_SUPPORTED, tuned->device) != 0 || !has_pools)
        return GEMM_TUNED_SUCCESS;
    memset(&properties, 0, sizeof properties);
    properties.type = PINNED;
    properties.place = ON_DEVICE;
    properties.device = tuned->device;
    if ((status = enter(tuned, &pushed)) != 0)
        return status;
    if ((status = tuned->cuda.make_pool(&tuned->pool, &properties)) != 0)
        tuned->pool = NULL;
    else
        status = tuned->cuda.set_pool(tuned->pool, RELEASE_THRESHOLD, &all);
    leave(tuned, pushed);
    return status;
}

/* Frees memory of a handle in its context. The driver keeps what launches still use until they are done. */
static void free_memory(gemm_tuned *tuned)
{
    reservation *next, *own = (reservation *)tuned->reserved;
    for (; own != NULL; own = next) {
        next = own->next;
        tuned->cuda.release(own->address);
        free(own);
    }
    tuned->reserved = NULL;
    if (tuned->pool != NULL)
        tuned->cuda.free_pool(tuned->pool);
    tuned->pool = NULL;
}

/* The largest reservation of a stream; NULL for none. */
static reservation *find_reservation(const gemm_tuned *tuned, const void *stream)
{
    reservation *own = (reservation *)__atomic_load_n(&tuned->reserved, __ATOMIC_ACQUIRE), *largest = NULL;
    for (; own != NULL; own = own->next)
        if (own->stream == stream && (largest == NULL || own->bytes > largest->bytes))
            largest = own;
    return largest;
}

int gemm_tuned_reserve(gemm_tuned *tuned, void *stream, size_t bytes)
{
    reservation *own;
    void *first;
    int status, pushed, mode = CAPTURE_MODE_RELAXED;
    if (tuned == NULL || bytes == 0 || (uintptr_t)stream == STREAM_OF_THREAD)
        return GEMM_TUNED_BAD_ARGUMENT;
    own = find_reservation(tuned, stream);
    if (own != NULL && own->bytes >= bytes)
        return GEMM_TUNED_SUCCESS;
    own = (reservation *)calloc(1, sizeof *own);
    if (own == NULL)
        return GEMM_TUNED_NO_MEMORY;
    own->stream = stream;
    own->bytes = bytes;
    if ((status = enter(tuned, &pushed)) == 0) {
        /* A stream may be captured: this memory is no part of it. */
        if ((status = tuned->cuda.exchange_capture_mode(&mode)) == 0) {
            status = tuned->cuda.allocate(&own->address, bytes);
            tuned->cuda.exchange_capture_mode(&mode);
        }
        leave(tuned, pushed);
    }
    if (status != 0) {
        free(own);
        return status;
    }
    first = __atomic_load_n(&tuned->reserved, __ATOMIC_ACQUIRE);
    do
        own->next = (reservation *)first;
    while (!__atomic_compare_exchange_n(&tuned->reserved, &first, (void *)own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return GEMM_TUNED_SUCCESS;
}

int gemm_tuned_set_allocation(gemm_tuned *tuned, int mode)
{
    if (tuned == NULL || (mode != GEMM_TUNED_NO_ALLOCATION && mode != GEMM_TUNED_POOL))
        return GEMM_TUNED_BAD_ARGUMENT;
    tuned->allocates = mode == GEMM_TUNED_POOL;
    return GEMM_TUNED_SUCCESS;
}

/* Memory for a call: lent by the caller, of a reservation, or to be taken from the pool. `room` is what a kernel may
 * need. */
typedef struct {
    void *at;
    unsigned long long room;
    reservation *reserved;
    int is_pooled;
} borrowed;

static borrowed borrow(const gemm_tuned *tuned, void *lent, size_t room, const void *stream)
{
    borrowed own = { lent, room, NULL, 0 };
    if (lent != NULL && room > 0 && (uintptr_t)lent % WORKSPACE_ALIGNMENT == 0)
        return own;
    own.at = NULL;
    own.reserved = find_reservation(tuned, stream);
    own.is_pooled = own.reserved == NULL && tuned->allocates && tuned->pool != NULL;
    own.room = own.reserved != NULL ? own.reserved->bytes : own.is_pooled ? SATURATED : 0;
    return own;
}

/* Takes the memory that a kernel needs. */
static int take(const gemm_tuned *tuned, borrowed *own, unsigned long long bytes, void *stream)
{
    unsigned long long address = 0;
    int status = GEMM_TUNED_SUCCESS;
    if (bytes == 0)
        own->reserved = NULL;
    if (own->reserved != NULL) {
        while (__atomic_exchange_n(&own->reserved->busy, 1, __ATOMIC_ACQUIRE))
            sched_yield();
        own->at = (void *)(uintptr_t)own->reserved->address;
    } else if (own->is_pooled && bytes > 0) {
        status = tuned->cuda.take(&address, (size_t)bytes, tuned->pool, stream);
        own->at = status == 0 ? (void *)(uintptr_t)address : NULL;
    }
    return status;
}

/* Gives it back, in the order of the stream. */
static int give_back(const gemm_tuned *tuned, borrowed *own, void *stream)
{
    if (own->reserved != NULL)
        __atomic_store_n(&own->reserved->busy, 0, __ATOMIC_RELEASE);
    return own->is_pooled && own->at != NULL ? tuned->cuda.give_back((uintptr_t)own->at, stream) : GEMM_TUNED_SUCCESS;
}

