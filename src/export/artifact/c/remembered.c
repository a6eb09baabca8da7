/* Remembered entries ----------------------------------------------------------------------------------- */

/* Entries are added while others read them, and are never replaced. An entry begins with the words that it is found by. */

/* Place of words in a table. */
static unsigned hash(const long long *words, int count)
{
    unsigned long long hash = 1469598103934665603ull;
    int i;
    for (i = 0; i < count; i++) {
        hash = (hash ^ (unsigned long long)words[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return (unsigned)(hash % SLOTS);
}

/* The entry of words; NULL for none. */
static void *find_entry(void *const *table, const long long *words, int count)
{
    unsigned first = hash(words, count), i;
    for (i = 0; i < PROBES; i++) {
        void *known = __atomic_load_n(&table[(first + i) % SLOTS], __ATOMIC_ACQUIRE);
        if (known == NULL)
            return NULL;
        if (memcmp(known, words, (size_t)count * sizeof *words) == 0)
            return known;
    }
    return NULL;
}

/* Adds an entry, which the table owns from then on. Frees it and says 0 where there is no place left. */
static int add_entry(void **table, const long long *words, int count, void *added)
{
    unsigned first = hash(words, count), i;
    for (i = 0; i < PROBES; i++) {
        void *known = NULL;
        if (__atomic_compare_exchange_n(&table[(first + i) % SLOTS], &known, added, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return 1;
    }
    free(added);
    return 0;
}

