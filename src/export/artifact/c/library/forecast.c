/* The library's time ------------------------------------------------------------------------------------ */

/* cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t. */
typedef struct {
    unsigned long long data[8];
} lt_algorithm;

typedef struct {
    lt_algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} lt_result;

/* Square of how much longer an extent is than another one. */
static double apart(long long own, long long other)
{
    double more = own > other ? (double)own / (double)other : (double)other / (double)own;
    return (more - 1) * (more - 1);
}

/* Time of the fastest tile and split of K: see src/predict/library_model.rs. */
static double formula_us(const library_costs *own, const library_row *row, int multiprocessors, const long long *p)
{
    const double m = (double)p[0], n = (double)p[1], k = (double)p[2], batch = (double)p[3];
    const double moving = (m * k * batch * row->ab_bytes + k * n * batch * row->ab_bytes + m * n * batch * row->d_bytes)
                          * own->byte_us;
    const double parts_us = m * n * batch * own->part_us;
    double fastest = -1;
    int i, j;
    for (i = 0; i < LIBRARY_TILES; i++) {
        const long long *tile = library_tiles[i];
        long long tiles = times(times(ceil_div(p[0], tile[0]), ceil_div(p[1], tile[1])), p[3]);
        for (j = 0; j < LIBRARY_SPLITS && (j == 0 || p[2] >= library_splits[j] * LEAST_PART); j++) {
            double steps = (double)ceil_div(p[2], library_splits[j]);
            long long share = ceil_div(times(tiles, library_splits[j]), multiprocessors);
            double waves = (double)ceil_div(share, tile[2]);
            double busy = (double)share * steps * own->step_us[i];
            double alone = waves * steps * own->step_us[i] * own->alone;
            double us = (busy > alone ? busy : alone) + waves * own->wave_us;
            us = own->launch_us + (us > moving ? us : moving)
                 + (j > 0 ? own->split_us + (double)library_splits[j] * parts_us : 0);
            if (fastest < 0 || us < fastest)
                fastest = us;
        }
    }
    return fastest;
}

/* The time that a kernel has to beat: the formula's, corrected by known times of similar problems, no shorter than a call
 * takes the host, and less by the margin that a kernel needs. */
static double library_time_to_beat(const kernel *own, int multiprocessors, const long long *p)
{
    const library_row *row = &library_rows[own - kernels];
    const int layout = (int)(own->types & 3);
    double weights = 0, errors = 0, us;
    int i;
    if (row->costs < 0)
        return NEVER_US;
    for (i = row->first_known; i < row->first_known + row->knowns; i++) {
        const known_time *known = &known_times[i];
        double square = apart(known->p[0], p[0]) + apart(known->p[1], p[1]) + apart(known->p[2], p[2])
                        + BATCH_WEIGHT * apart(known->p[3], p[3]) + (known->layout == layout ? 0 : LAYOUT_WEIGHT);
        double weight = 1 / ((1 + square) * (1 + square));
        weights += weight;
        errors += weight * known->longer;
    }
    us = formula_us(&costs_of_library[row->costs], row, multiprocessors, p) * (1 + errors / (FORMULA_WEIGHT + weights));
    return (us > LIBRARY_CALL_US ? us : LIBRARY_CALL_US) / (1 + LIBRARY_MARGIN);
}

/* Bytes of workspace that a row of the library may use: those of its algorithm, else what there is, up to the most that
 * the library was timed with. */
static long long library_workspace(const kernel *own, unsigned long long room)
{
    const library_row *row = &library_rows[own - kernels];
    if (row->workspace >= 0)
        return row->workspace;
    return room > MOST_LIBRARY_WORKSPACE ? (long long)MOST_LIBRARY_WORKSPACE
                                         : (long long)(room / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT);
}

/* Sizes of a kernel or of a row of the library. */
static void set_sizes(const kernel *own, unsigned long long room, const long long *p, long long *sizes)
{
    own->sizes(p, sizes);
    if (own->launches == 0)
        sizes[0] = library_workspace(own, room);
}

