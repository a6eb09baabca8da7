/* Measuring -------------------------------------------------------------------------------------------- */

/* Kernels that are timed, and rounds of timing after one that is not counted. */
@N@#define CANDIDATES 3
@L@#define CANDIDATES 4
#define ROUNDS 9
/* Share of its time by which another kernel has to be faster than the one with the best forecast. */
#define CLEARLY 0.01

/* What is timed: candidates, their functions and times, and device memory with copies of the operands. */
typedef struct {
    plan plans[CANDIDATES];
    float times[CANDIDATES][ROUNDS];
    int count, rounds;
    unsigned long long memory, workspace, flushed;
    size_t flushed_bytes;
    gemm_tuned_operands operands;
    void *begin, *end;
} timing;

/* Bytes of an operand from its first element to its last. */
static size_t operand_bytes(const product *own, int operand)
{
    long long table[3][3];
    stored(own, table);
    return (size_t)(((table[operand][0] - 1) * table[operand][2] + table[operand][1]
                     + own->strides[operand] * (own->p[3] - 1))
                    * own->elements[operand]);
}

static size_t aligned(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* Allocates scratch memory, and copies A and B to it, as far from a multiple of 256 bytes as the caller's. D begins
 * as zeros. Twice the L2 cache is overwritten before each launch. */
static int prepare(const gemm_tuned *tuned, const product *own, const gemm_tuned_operands *operands, void *stream,
                   timing *t)
{
    const driver *cuda = &tuned->cuda;
    const void *const from[3] = { operands->a, operands->b, operands->d };
    unsigned long long to[3], at;
    size_t bytes[3], workspace = 0, all = 0;
    int i, l2 = 0, status;
    for (i = 0; i < t->count; i++) {
        size_t needed = (size_t)workspace_bytes(t->plans[i].chosen.own, t->plans[i].chosen.sizes);
        workspace = needed > workspace ? needed : workspace;
    }
    if ((status = cuda->device_attribute(&l2, L2_CACHE_SIZE, tuned->device)) != 0)
        return status;
    for (i = 0; i < 3; i++) {
        bytes[i] = operand_bytes(own, i);
        all += aligned(bytes[i]) + WORKSPACE_ALIGNMENT;
    }
    t->flushed_bytes = aligned(2 * (size_t)(l2 > 0 ? l2 : 0));
    all += aligned(workspace) + t->flushed_bytes;
    if (all > tuned->measuring.scratch_bytes)
        return GEMM_TUNED_NO_MEMORY;
    if ((status = cuda->allocate(&t->memory, all)) != 0) {
        t->memory = 0;
        return status;
    }
    at = t->memory;
    for (i = 0; i < 3; i++) {
        to[i] = at + (uintptr_t)from[i] % WORKSPACE_ALIGNMENT;
        at += aligned(bytes[i]) + WORKSPACE_ALIGNMENT;
        status = i < 2 ? cuda->copy(to[i], (unsigned long long)(uintptr_t)from[i], bytes[i], stream)
                       : cuda->fill(to[i], 0, bytes[i], stream);
        if (status != 0)
            return status;
    }
    t->workspace = at;
    t->flushed = at + aligned(workspace);
    t->operands = *operands;
    t->operands.a = (const void *)(uintptr_t)to[0];
    t->operands.b = (const void *)(uintptr_t)to[1];
    t->operands.d = (void *)(uintptr_t)to[2];
    if ((status = cuda->make_event(&t->begin, 0)) == 0)
        status = cuda->make_event(&t->end, 0);
    return status;
}

static void clean_up(const gemm_tuned *tuned, timing *t)
{
    if (t->begin != NULL)
        tuned->cuda.free_event(t->begin);
    if (t->end != NULL)
        tuned->cuda.free_event(t->end);
    if (t->memory != 0)
        tuned->cuda.release(t->memory);
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Times all candidates in turn, round by round, until the budget is spent. The first round loads and is not
 * counted. */
static int time_candidates(gemm_tuned *tuned, const product *own, void *stream, timing *t)
{
    const driver *cuda = &tuned->cuda;
    double started = milliseconds();
    int round, i, status;
    for (round = -1; round < ROUNDS; round++) {
        for (i = 0; i < t->count; i++) {
            float ms = 0;
            if ((t->flushed_bytes > 0
                 && (status = cuda->fill(t->flushed, (unsigned char)round, t->flushed_bytes, stream)) != 0)
                || (status = cuda->record(t->begin, stream)) != 0
                || (status = launch_plan(tuned, &t->plans[i], own, &t->operands, (void *)(uintptr_t)t->workspace,
                                         stream))
                       != 0
                || (status = cuda->record(t->end, stream)) != 0 || (status = cuda->wait(t->end)) != 0
                || (status = cuda->elapsed(&ms, t->begin, t->end)) != 0)
                return status;
            if (round >= 0)
                t->times[i][round] = ms;
        }
        if (round >= 0)
            t->rounds = round + 1;
        if (milliseconds() - started > tuned->measuring.budget_ms)
            break;
    }
    return GEMM_TUNED_SUCCESS;
}

static int compare_times(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Decides: the candidate with the lowest median, where it is clearly below that of the best forecast. */
static void decide(gemm_tuned *tuned, const question *key, timing *t)
{
    float median[CANDIDATES];
    int i, best = 0;
    for (i = 0; i < t->count; i++) {
        qsort(t->times[i], (size_t)t->rounds, sizeof t->times[i][0], compare_times);
        median[i] = t->times[i][t->rounds / 2];
        if (median[i] < median[best] * (best == 0 ? 1 - CLEARLY : 1))
            best = i;
    }
    remember_measured(tuned, key, t->plans[best].chosen.own);
    write_file(tuned, key, t->plans[best].chosen.own, median[best] * 1e3);
}

@L@/* Keeps of ranked candidates the kernels and, as the last one, the library's first choice, where it can be prepared. */
@L@static int with_library(const gemm_tuned *tuned, const machine *on, const product *own, const long long *p, choice *best,
@L@                        int count)
@L@{
@L@    int i, kept = 0;
@L@    for (i = 0; i < count; i++)
@L@        if (best[i].own->launches > 0)
@L@            best[kept++] = best[i];
@L@    for (i = 0; on->has_library && i < LIBRARY_ROWS; i++) {
@L@        choice *next = &best[kept];
@L@        if (kernels[i].types != own->types || kernels[i].epilogue != own->epilogue || kernels[i].tuned)
@L@            continue;
@L@        next->own = &kernels[i];
@L@        next->time = library_time_to_beat(next->own, on->multiprocessors, p);
@L@        next->exact = 0;
@L@        set_sizes(next->own, on->room, p, next->sizes);
@L@        kept += prepare_library(tuned, own, on->room, next);
@L@        break;
@L@    }
@L@    return kept;
@L@}
@L@
/* Times the kernels with the best forecasts for a problem that was not tuned, and remembers the fastest. What cannot
 * be measured, for want of memory or time, keeps the kernel with the best forecast. */
static int measure_once(gemm_tuned *tuned, const product *own, const question *key,
                        const gemm_tuned_operands *operands, void *stream)
{
@N@    const machine on = machine_of(tuned, tuned->measuring.scratch_bytes);
@L@    machine on = machine_of(tuned, tuned->measuring.scratch_bytes);
    choice best[CANDIDATES];
    timing t;
    int i, status, mode = CAPTURE_MODE_RELAXED;
    read_file(tuned);
    if (find_measured(tuned, key) != NULL)
        return GEMM_TUNED_SUCCESS;
    memset(&t, 0, sizeof t);
@N@    t.count = rank(&on, own, key->words + 1, best, CANDIDATES);
@L@    on.has_library = (key->words[PROBLEM_WORDS] & LIBRARY_PERMITTED) != 0;
@L@    t.count = rank(&on, own, key->words + 1, best, CANDIDATES - 1);
@L@    if (t.count > 0 && !best[0].exact)
@L@        t.count = with_library(tuned, &on, own, key->words + 1, best, t.count);
    if (t.count == 0)
        return GEMM_TUNED_NO_KERNEL;
    if (t.count > 1 && !best[0].exact) {
        /* Other streams may be captured: memory and events are no part of that. */
        if ((status = tuned->cuda.exchange_capture_mode(&mode)) != 0)
            return status;
        for (i = 0; i < t.count && status == 0; i++) {
            t.plans[i].chosen = best[i];
            status = load_functions(tuned, &t.plans[i]);
        }
        if (status == 0)
            status = prepare(tuned, own, operands, stream, &t);
        if (status == 0)
            status = time_candidates(tuned, own, stream, &t);
        if (status == 0 && t.rounds > 0)
            decide(tuned, key, &t);
        clean_up(tuned, &t);
        tuned->cuda.exchange_capture_mode(&mode);
    }
    if (find_measured(tuned, key) == NULL)
        remember_measured(tuned, key, best[0].own);
    return GEMM_TUNED_SUCCESS;
}

/* The same by one thread at a time, and outside of captures. */
static int measure(gemm_tuned *tuned, const product *own, const question *key, const gemm_tuned_operands *operands,
                   void *stream)
{
    int captured = 0, status;
    if (tuned->measuring.mode != GEMM_TUNED_MEASURE || find_measured(tuned, key) != NULL)
        return GEMM_TUNED_SUCCESS;
    if ((status = tuned->cuda.capture_status(stream, &captured)) != 0)
        return status;
    if (captured || __atomic_exchange_n(&tuned->busy, 1, __ATOMIC_ACQUIRE))
        return GEMM_TUNED_NOT_NOW;
    status = measure_once(tuned, own, key, operands, stream);
    __atomic_store_n(&tuned->busy, 0, __ATOMIC_RELEASE);
    return status;
}

