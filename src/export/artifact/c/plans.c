/* Plans ------------------------------------------------------------------------------------------------ */

static void ask(const product *asked, int alignment, unsigned long long room, question *key)
{
    key->words[0] = asked->types;
    describe(asked, alignment, key->words + 1);
    key->words[8] = asked->epilogue * 2 + !is_packed(asked);
@N@    key->words[PROBLEM_WORDS] = (long long)room;
@L@    /* Workspaces are multiples of 256 bytes: the last bit says whether the library may be called. */
@L@    key->words[PROBLEM_WORDS] = (long long)(room & ~(unsigned long long)(WORKSPACE_ALIGNMENT - 1));
}

/* The machine of a handle, with so many bytes for workspaces; NULL for that on which the kernels were tuned. */
static machine machine_of(const gemm_tuned *tuned, unsigned long long room)
{
    machine on;
    on.multiprocessors = tuned == NULL ? TUNED_MULTIPROCESSORS : tuned->multiprocessors;
    on.has_maps = tuned == NULL || tuned->cuda.encode != NULL;
    on.room = room;
@L@    on.has_library = 0;
    return on;
}

/* The choice for a question with at most so much workspace: the measured kernel, else the best by its time. */
@N@static int choose(const gemm_tuned *tuned, const product *asked, const question *key, choice *chosen)
@L@static int choose_with(const gemm_tuned *tuned, const product *asked, const question *key, int has_library,
@L@                       choice *chosen)
{
@N@    const machine on = machine_of(tuned, (unsigned long long)key->words[PROBLEM_WORDS]);
@L@    machine on = machine_of(tuned, (unsigned long long)(key->words[PROBLEM_WORDS] & ~(long long)LIBRARY_PERMITTED));
    const kernel *known = tuned == NULL ? NULL : find_measured(tuned, key);
@L@    on.has_library = has_library;
@N@    if (known != NULL) {
@N@        known->sizes(key->words + 1, chosen->sizes);
@L@    if (known != NULL && (known->launches > 0 || has_library)) {
@L@        set_sizes(known, on.room, key->words + 1, chosen->sizes);
        chosen->own = known;
        chosen->time = 0;
        chosen->exact = 0;
        if (known->serves(key->words + 1) && launchable(known, chosen->sizes)
            && workspace_bytes(known, chosen->sizes) <= on.room && mappable(known, asked))
            return GEMM_TUNED_SUCCESS;
    }
    return rank(&on, asked, key->words + 1, chosen, 1) == 1 ? GEMM_TUNED_SUCCESS : GEMM_TUNED_NO_KERNEL;
}

@L@/* The same, with the library where the question permits it: kernels take over what it cannot do. */
@L@static int choose(const gemm_tuned *tuned, const product *asked, const question *key, choice *chosen)
@L@{
@L@    const int has_library = (key->words[PROBLEM_WORDS] & LIBRARY_PERMITTED) != 0;
@L@    const unsigned long long room = (unsigned long long)(key->words[PROBLEM_WORDS] & ~(long long)LIBRARY_PERMITTED);
@L@    int status = choose_with(tuned, asked, key, has_library, chosen);
@L@    if (status == 0 && chosen->own->launches == 0 && !prepare_library(tuned, asked, room, chosen))
@L@        status = choose_with(tuned, asked, key, 0, chosen);
@L@    return status;
@L@}
@L@
/* The remembered choice for a question; NULL for none. */
static const plan *find_plan(const gemm_tuned *tuned, const question *key)
{
    return (const plan *)find_entry(tuned->plans, key->words, PROBLEM_WORDS + 1);
}

/* Chooses for a question, and loads the functions into the current context. Where the choice is not remembered, for
 * want of a place or of memory or because it is not to be, it lies in `space`. */
static int make_plan(gemm_tuned *tuned, const product *asked, const question *key, int remember, plan *space,
                     const plan **found)
{
    plan *added;
    int status;
    space->asked = *key;
    *found = space;
    status = choose(tuned, asked, key, &space->chosen);
    if (status == 0)
        status = load_functions(tuned, space);
    if (status != 0 || !remember || (added = (plan *)malloc(sizeof *added)) == NULL)
        return status;
    *added = *space;
    if (add_entry(tuned->plans, key->words, PROBLEM_WORDS + 1, added))
        *found = added;
    return status;
}

