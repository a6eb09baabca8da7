/* Choice ----------------------------------------------------------------------------------------------- */

/* Predicted time of a kernel. Whole tiles are distributed over the multiprocessors; the busiest one
 * determines the time. Each tile, each wave and packing add to it. The prediction is less reliable
 * for a problem much larger or smaller than the kernel's own, so its time is raised there. */
static double expected_us(const kernel *own, int multiprocessors, const long long *p)
{
    long long slices = own->slice_k == 0 ? 1 : ceil_div(p[2], own->slice_k);
    long long blocks = times(times(ceil_div(p[0], own->tile_m), ceil_div(p[1], own->tile_n)),
                             times(slices, times(own->blocks_of_a_tile, p[3])));
    double steps = (double)(own->slice_k == 0 ? p[2] : least(p[2], own->slice_k));
    long long used = multiprocessors - own->unused_sms;
    long long share = ceil_div(blocks, used > 0 ? used : 1);
    double waves = (double)ceil_div(share, own->blocks_per_sm);
    double busy = (double)share * steps * own->busy_clocks;
    double alone = waves * steps * own->alone_clocks;
    double of_a = (double)(p[0] * p[2]) * own->a_clocks, of_b = (double)(p[2] * p[1]) * own->b_clocks;
    double clocks = (busy > alone ? busy : alone) + (double)share * own->block_clocks
                    + waves * own->wave_clocks + (of_a + of_b) * (double)p[3];
    double ratio = clocks / own->own_clocks;
    double time = own->launch_us + clocks * own->us_per_clock;
    if (ratio < 1)
        ratio = 1 / ratio;
    for (; ratio >= 2; ratio /= 2)
        time *= 1.05;
    return time * (1 + 0.05 * (ratio - 1));
}

/* Total bytes of a kernel's workspaces, each aligned. */
static unsigned long long workspace_bytes(const kernel *own, const long long *sizes)
{
    unsigned long long bytes = 0;
    int i;
    for (i = 0; i < own->workspaces; i++)
        bytes += (unsigned long long)(ceil_div(sizes[SIZES * own->launches + i], WORKSPACE_ALIGNMENT)
                                      * WORKSPACE_ALIGNMENT);
    return bytes;
}

/* Whether any device has grids and blocks of these sizes. */
static int launchable(const kernel *own, const long long *sizes)
{
    static const long long most_of[6] = { 2147483647, 65535, 65535, 1024, 1024, 64 };
    int i, j;
    for (i = 0; i < own->launches; i++) {
        const long long *s = sizes + SIZES * i;
        for (j = 0; j < 6; j++)
            if (s[j] < 1 || s[j] > most_of[j])
                return 0;
        if (s[3] * s[4] * s[5] > 1024 || s[6] < 0 || s[6] > 2147483647)
            return 0;
    }
    return 1;
}

/* Whether the driver encodes a kernel's tensor maps for a problem. The sizes of a map lie one after the other. */
static int mappable(const kernel *own, const product *asked)
{
    long long sizes[MAP_SIZES * MAX_MAPS];
    int i, j;
    if (own->maps == 0)
        return 1;
    if (!is_packed(asked))
        return 0;
    own->map_sizes(asked->p, sizes);
    for (i = 0; i < own->maps; i++) {
        const tensor_map *map = &maps[own->first_map + i];
        const long long *s = sizes + MAP_SIZES * i;
        if (s[0] < 0 || s[0] % 16 != 0)
            return 0;
        for (j = 0; j < map->rank; j++) {
            long long stride = j == 0 ? 16 : s[MAX_RANK + j] * map->element;
            if (s[1 + j] < 1 || s[1 + j] > 4294967295LL || stride < 16 || stride % 16 != 0 || stride >= 1LL << 40
                || s[2 * MAX_RANK + j] < 1 || s[2 * MAX_RANK + j] > 256)
                return 0;
        }
    }
    return 1;
}

/* A kernel with its predicted time and the sizes of its launches and workspaces. */
typedef struct {
    const kernel *own;
    double time;
    int exact;
    long long sizes[SIZES * MAX_LAUNCHES + MAX_WORKSPACES];
@L@    /* Of a row of the library: what prepare_library found. */
@L@    int is_of_cublas;
@L@    int compute;
@L@    lt_algorithm algorithm;
@L@    const char *algorithm_name;
} choice;

/* What kernels have: multiprocessors, bytes for workspaces, and whether the driver encodes tensor maps. */
typedef struct {
    int multiprocessors, has_maps;
    unsigned long long room;
@L@    int has_library;
} machine;

/* Selects the best kernels for a machine, at most `count` of them, the best first: the
 * one that was tuned for exactly this problem, else the preferred ones, else those with the lowest predicted times.
 * Returns how many there are. */
static int rank(const machine *on, const product *asked, const long long *p, choice *best, int count)
{
    int i, j, first, found = 0;
    const int *order = preferred(p, &first);
    choice next;
    for (i = -first; i < KERNELS; i++) {
        next.own = &kernels[i < 0 ? order[first + i] : i];
        next.exact = next.own->tuned && next.own->m == p[0] && next.own->n == p[1] && next.own->k == p[2]
                     && next.own->batch == p[3];
        if (next.own->types != asked->types || next.own->epilogue != asked->epilogue
            || (next.own->maps > 0 && !on->has_maps))
            continue;
@L@        /* A recorded algorithm is for its own problem. */
@L@        if (next.own->launches == 0 && (!on->has_library || (next.own->tuned && !next.exact)))
@L@            continue;
        /* Preferred kernels get negative times, in their order. */
@N@        next.time = next.exact ? -1e9 : i < 0 ? (double)i : expected_us(next.own, on->multiprocessors, p);
@L@        next.time = next.exact                ? -1e9
@L@                    : i < 0                   ? (double)i
@L@                    : next.own->launches == 0 ? library_time_to_beat(next.own, on->multiprocessors, p)
@L@                                              : expected_us(next.own, on->multiprocessors, p);
        if ((found == count && next.time >= best[count - 1].time) || !next.own->serves(p))
            continue;
        for (j = 0; j < found && best[j].own != next.own; j++) {
        }
        if (j < found) /* a preferred one, met again */
            continue;
@N@        next.own->sizes(p, next.sizes);
@L@        set_sizes(next.own, on->room, p, next.sizes);
        if (!launchable(next.own, next.sizes) || workspace_bytes(next.own, next.sizes) > on->room
            || !mappable(next.own, asked))
            continue;
        for (j = found < count ? found : count - 1; j > 0 && best[j - 1].time > next.time; j--)
            best[j] = best[j - 1];
        best[j] = next;
        found += found < count;
        if (next.exact && count == 1)
            break;
    }
    return found;
}

