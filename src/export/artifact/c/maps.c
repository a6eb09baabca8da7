/* Tensor maps ------------------------------------------------------------------------------------------ */

/* Encodes the maps of a kernel for operands in device memory. `places` has the workspaces. */
static int encode_maps(const gemm_tuned *tuned, const kernel *own, const product *asked,
                       const gemm_tuned_operands *operands, void *const *places, encoded_map *to)
{
    static const unsigned steps[MAX_RANK] = { 1, 1, 1, 1, 1 };
    long long sizes[MAP_SIZES * MAX_MAPS];
    int i, j, status = 0;
    own->map_sizes(asked->p, sizes);
    for (i = 0; i < own->maps && status == 0; i++) {
        const tensor_map *map = &maps[own->first_map + i];
        const long long *s = sizes + MAP_SIZES * i;
        const void *base = map->operand == 0   ? operands->a
                           : map->operand == 1 ? operands->b
                           : map->operand == 2 ? operands->d
                                               : places[map->operand - 3];
        unsigned long long extents[MAX_RANK], strides[MAX_RANK];
        unsigned box[MAX_RANK];
        for (j = 0; j < map->rank; j++) {
            extents[j] = (unsigned long long)s[1 + j];
            box[j] = (unsigned)s[2 * MAX_RANK + j];
            if (j > 0)
                strides[j - 1] = (unsigned long long)(s[MAX_RANK + j] * map->element);
        }
        status = tuned->cuda.encode(&to[i], map->type, (unsigned)map->rank,
                                    (void *)((uintptr_t)base + (uintptr_t)s[0]), extents, strides, box, steps, 0,
                                    map->swizzle, PROMOTE_TO_128_BYTES, 0);
    }
    return status;
}

/* The maps of a kernel for operands: those that were encoded for the same ones before, else new ones, which lie in
 * `space` where there is no place left or no memory. */
static int find_maps(gemm_tuned *tuned, const kernel *own, const product *asked, const gemm_tuned_operands *operands,
                     void *const *places, encoded_map *space, encoded_map **found)
{
    long long words[MAP_WORDS];
    void *memory = NULL;
    map_set *added;
    int status;
    *found = space;
    if (own->maps == 0)
        return GEMM_TUNED_SUCCESS;
    words[0] = own - kernels;
    memcpy(words + 1, asked->p, sizeof asked->p);
    words[8] = (long long)(uintptr_t)operands->a;
    words[9] = (long long)(uintptr_t)operands->b;
    words[10] = (long long)(uintptr_t)operands->d;
    words[11] = own->workspaces > 0 ? (long long)(uintptr_t)places[0] : 0;
    added = (map_set *)find_entry(tuned->map_sets, words, MAP_WORDS);
    if (added != NULL) {
        *found = added->maps;
        return GEMM_TUNED_SUCCESS;
    }
    status = encode_maps(tuned, own, asked, operands, places, space);
    if (status != 0 || posix_memalign(&memory, sizeof(encoded_map), sizeof *added) != 0)
        return status;
    added = (map_set *)memory;
    memcpy(added->words, words, sizeof words);
    memcpy(added->maps, space, (size_t)own->maps * sizeof *space);
    if (add_entry(tuned->map_sets, words, MAP_WORDS, added))
        *found = added->maps;
    return status;
}
