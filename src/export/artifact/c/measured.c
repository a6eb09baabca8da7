/* Measured kernels ------------------------------------------------------------------------------------- */

/* The kernel that was measured as the fastest; NULL for none. */
static const kernel *find_measured(const gemm_tuned *tuned, const question *key)
{
    const measured *known = (const measured *)find_entry(tuned->fastest, key->words, PROBLEM_WORDS);
    return known == NULL ? NULL : known->fastest;
}

/* Remembers a measured kernel for as long as the handle lives. The first one stays. */
static void remember_measured(gemm_tuned *tuned, const question *key, const kernel *fastest)
{
    measured *added = find_measured(tuned, key) != NULL ? NULL : (measured *)malloc(sizeof *added);
    if (added == NULL)
        return;
    added->asked = *key;
    added->fastest = fastest;
    add_entry(tuned->fastest, key->words, PROBLEM_WORDS, added);
}

/* Reads a line of the file: the words of a question, the name of a kernel, its time. Lines that say anything else
 * are left alone: other programs may have written them. */
static void read_measured(gemm_tuned *tuned, const char *line)
{
    question key;
    char name[FILE_NAME_BYTES];
    int i, end = 0;
    memset(&key, 0, sizeof key);
    if (sscanf(line, "%lld %lld %lld %lld %lld %lld %lld %lld %lld %199s%n", &key.words[0], &key.words[1],
               &key.words[2], &key.words[3], &key.words[4], &key.words[5], &key.words[6], &key.words[7], &key.words[8],
               name, &end)
        != PROBLEM_WORDS + 1)
        return;
    for (i = 1; i < 8; i++)
        if (key.words[i] < 1 || key.words[i] > MAX_EXTENT + WORKSPACE_ALIGNMENT)
            return;
    for (i = 0; i < KERNELS; i++) {
        const kernel *own = &kernels[i];
        if (own->types == key.words[0] && own->epilogue == key.words[8] >> 1 && strcmp(own->name, name) == 0)
            remember_measured(tuned, &key, own);
    }
}

/* Opens a regular file; -1 for anything else. */
static int open_regular(const char *path, int flags)
{
    struct stat about;
    int file = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file >= 0 && (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))) {
        close(file);
        file = -1;
    }
    return file;
}

/* Reads what was added to the file since it was read last, by any process. A line that is not ended is being written
 * and is read later. */
static void read_file(gemm_tuned *tuned)
{
    char line[LINE_BYTES];
    struct stat about;
    char *text = NULL, *at, *end;
    long long bytes = 0;
    int file = tuned->file[0] == 0 ? -1 : open_regular(tuned->file, O_RDONLY);
    if (file < 0)
        return;
    if (fstat(file, &about) == 0 && about.st_size <= MAX_FILE_BYTES)
        bytes = (long long)about.st_size - tuned->file_read;
    if (bytes > 0 && (text = (char *)malloc((size_t)bytes)) != NULL)
        bytes = (long long)pread(file, text, (size_t)bytes, (off_t)tuned->file_read);
    close(file);
    for (at = text; text != NULL && bytes > 0 && (end = (char *)memchr(at, '\n', (size_t)bytes)) != NULL;) {
        long long length = end - at + 1;
        if (length < (long long)sizeof line) {
            memcpy(line, at, (size_t)length);
            line[length] = 0;
            read_measured(tuned, line);
        }
        at += length;
        bytes -= length;
        tuned->file_read += length;
    }
    free(text);
}

/* Adds a line to the file by one write, so that processes may share it. A file that cannot be written is no error:
 * the kernel is remembered for as long as the handle lives. */
static void write_file(const gemm_tuned *tuned, const question *key, const kernel *fastest, double us)
{
    char line[LINE_BYTES];
    const long long *w = key->words;
    int length, file = tuned->file[0] == 0 ? -1 : open_regular(tuned->file, O_WRONLY | O_APPEND | O_CREAT);
    if (file < 0)
        return;
    length = snprintf(line, sizeof line, "%lld %lld %lld %lld %lld %lld %lld %lld %lld %s %.3f\n", w[0], w[1], w[2],
                      w[3], w[4], w[5], w[6], w[7], w[8], fastest->name, us);
    if (length > 0 && (size_t)length < sizeof line && write(file, line, (size_t)length) < 0)
        length = 0;
    close(file);
}

/* Makes the folders of a path. */
static void make_folders(char *path)
{
    char *at;
    for (at = path + 1; *at != 0; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, 0700);
            *at = '/';
        }
}

/* Sets the file of measured kernels: the given one, or that of this library, GPU and driver in the user's cache. */
static int set_file(gemm_tuned *tuned, const char *given)
{
    char name[128];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int version, status, i, length;
    tuned->file[0] = 0;
    tuned->file_read = 0;
    if (given != NULL) {
        length = snprintf(tuned->file, sizeof tuned->file, "%s", given);
    } else {
        if ((status = tuned->cuda.device_name(name, (int)sizeof name, tuned->device)) != 0
            || (status = tuned->cuda.version(&version)) != 0)
            return status;
        name[sizeof name - 1] = 0;
        for (i = 0; name[i] != 0; i++)
            if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'z')
                  || (name[i] >= 'A' && name[i] <= 'Z')))
                name[i] = '-';
        if (cache != NULL && cache[0] == '/')
            length = snprintf(tuned->file, sizeof tuned->file, "%s/gemm-tune/measured/%s-%s-%d.txt", cache, DIGEST,
                              name, version);
        else if (home != NULL && home[0] == '/')
            length = snprintf(tuned->file, sizeof tuned->file, "%s/.cache/gemm-tune/measured/%s-%s-%d.txt", home,
                              DIGEST, name, version);
        else
            length = 0;
    }
    if (length < 0 || (size_t)length >= sizeof tuned->file) {
        tuned->file[0] = 0;
        return GEMM_TUNED_BAD_ARGUMENT;
    }
    if (tuned->measuring.mode == GEMM_TUNED_MEASURE)
        make_folders(tuned->file);
    read_file(tuned);
    return GEMM_TUNED_SUCCESS;
}

int gemm_tuned_set_measuring(gemm_tuned *tuned, const gemm_tuned_measuring *measuring)
{
    if (tuned == NULL || measuring == NULL || measuring->size != sizeof *measuring || measuring->mode < 0
        || measuring->mode > GEMM_TUNED_USE_MEASURED || !(measuring->budget_ms > 0))
        return GEMM_TUNED_BAD_ARGUMENT;
    tuned->measuring = *measuring;
    tuned->measuring.file = NULL;
    return measuring->mode == GEMM_TUNED_FORECAST ? GEMM_TUNED_SUCCESS : set_file(tuned, measuring->file);
}

/* GEMM_TUNED_MEASURE=1 measures, GEMM_TUNED_MEASURE=read uses what was measured, GEMM_TUNED_MEASURE_FILE names the
 * file. */
static int measuring_of_environment(gemm_tuned *tuned)
{
    const char *mode = getenv("GEMM_TUNED_MEASURE");
    gemm_tuned_measuring measuring = gemm_tuned_default_measuring();
    measuring.file = getenv("GEMM_TUNED_MEASURE_FILE");
    if (mode != NULL && strcmp(mode, "1") == 0)
        measuring.mode = GEMM_TUNED_MEASURE;
    else if (mode != NULL && strcmp(mode, "read") == 0)
        measuring.mode = GEMM_TUNED_USE_MEASURED;
    return gemm_tuned_set_measuring(tuned, &measuring);
}

