/* Packed machine code ------------------------------------------------------------------------------------- */

/* Images are streams of deflate (RFC 1951), unpacked when a kernel is loaded. */

#define MAX_CODE_BITS 15
#define LITERALS 288
#define DISTANCES 32

/* Bits of a stream that were read and not used. Beyond its end there are zeros. */
typedef struct {
    const unsigned char *at, *end;
    unsigned long long held;
    int count;
} bit_reader;

/* A prefix code: by the next `bits` bits, a symbol * 16 + its length; 0 for none. */
typedef struct {
    int bits;
    unsigned short entries[1 << MAX_CODE_BITS];
} prefix_code;

/* What unpacking needs besides both buffers. */
typedef struct {
    bit_reader in;
    unsigned char *to;
    size_t bytes, done;
    prefix_code literals, distances;
} unpacking;

/* The next bits of a stream, at most 32. */
static unsigned take_bits(bit_reader *in, int count)
{
    unsigned bits;
    while (in->count < count) {
        in->held |= (unsigned long long)(in->at < in->end ? *in->at++ : 0) << in->count;
        in->count += 8;
    }
    bits = (unsigned)(in->held & ((1ull << count) - 1));
    in->held >>= count;
    in->count -= count;
    return bits;
}

/* Makes the code of symbols from the lengths of their words. 0 for lengths that no code has. */
static int make_code(prefix_code *own, const unsigned char *lengths, int symbols)
{
    unsigned counts[MAX_CODE_BITS + 1], next[MAX_CODE_BITS + 1], value = 0;
    int i, j;
    memset(counts, 0, sizeof counts);
    own->bits = 1;
    for (i = 0; i < symbols; i++)
        counts[lengths[i]]++;
    counts[0] = 0;
    for (i = 1; i <= MAX_CODE_BITS; i++) {
        value = (value + counts[i - 1]) << 1;
        next[i] = value;
        if (counts[i] > 0)
            own->bits = i;
    }
    memset(own->entries, 0, sizeof own->entries[0] << own->bits);
    for (i = 0; i < symbols; i++) {
        const int length = lengths[i];
        unsigned word, at = 0;
        if (length == 0)
            continue;
        word = next[length]++;
        if (word >> length != 0)
            return 0;
        for (j = 0; j < length; j++)
            at |= (word >> j & 1) << (length - 1 - j);
        for (; at < 1u << own->bits; at += 1u << length)
            own->entries[at] = (unsigned short)(i * 16 + length);
    }
    return 1;
}

/* The next symbol of a stream; -1 for bits that are none. */
static int next_symbol(bit_reader *in, const prefix_code *code)
{
    unsigned entry;
    while (in->count < MAX_CODE_BITS) {
        in->held |= (unsigned long long)(in->at < in->end ? *in->at++ : 0) << in->count;
        in->count += 8;
    }
    entry = code->entries[in->held & ((1u << code->bits) - 1)];
    in->held >>= entry & 15;
    in->count -= (int)(entry & 15);
    return (entry & 15) == 0 ? -1 : (int)(entry >> 4);
}

/* Reads the codes of a block: those of the format, or its own. */
static int read_codes(unpacking *own, int is_own)
{
    static const unsigned char order[19] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    unsigned char lengths[LITERALS + DISTANCES];
    int literals = LITERALS, distances = DISTANCES, i;
    if (is_own) {
        int words;
        literals = (int)take_bits(&own->in, 5) + 257;
        distances = (int)take_bits(&own->in, 5) + 1;
        words = (int)take_bits(&own->in, 4) + 4;
        memset(lengths, 0, sizeof lengths);
        for (i = 0; i < words; i++)
            lengths[order[i]] = (unsigned char)take_bits(&own->in, 3);
        if (literals > LITERALS || !make_code(&own->literals, lengths, 19))
            return 0;
        for (i = 0; i < literals + distances;) {
            int symbol = next_symbol(&own->in, &own->literals), value = 0, times = 1;
            if (symbol < 0 || (symbol == 16 && i == 0))
                return 0;
            if (symbol < 16)
                value = symbol;
            else if (symbol == 16)
                value = lengths[i - 1], times = 3 + (int)take_bits(&own->in, 2);
            else
                times = symbol == 17 ? 3 + (int)take_bits(&own->in, 3) : 11 + (int)take_bits(&own->in, 7);
            if (i + times > literals + distances)
                return 0;
            for (; times > 0; times--)
                lengths[i++] = (unsigned char)value;
        }
    } else {
        for (i = 0; i < LITERALS; i++)
            lengths[i] = (unsigned char)(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
        memset(lengths + LITERALS, 5, DISTANCES);
    }
    return make_code(&own->literals, lengths, literals) && make_code(&own->distances, lengths + literals, distances);
}

/* Unpacks a block of symbols. */
static int read_symbols(unpacking *own)
{
    static const unsigned short lengths[29] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
    for (;;) {
        int symbol = next_symbol(&own->in, &own->literals), extra;
        size_t length, distance;
        if (symbol == 256)
            return 1;
        if (symbol < 0 || symbol > 285 || own->done == own->bytes)
            return 0;
        if (symbol < 256) {
            own->to[own->done++] = (unsigned char)symbol;
            continue;
        }
        symbol -= 257;
        extra = symbol < 8 || symbol == 28 ? 0 : symbol / 4 - 1;
        length = lengths[symbol] + take_bits(&own->in, extra);
        symbol = next_symbol(&own->in, &own->distances);
        if (symbol < 0 || symbol > 29)
            return 0;
        extra = symbol < 4 ? 0 : symbol / 2 - 1;
        distance = (symbol < 4 ? (size_t)symbol : (size_t)(2 + symbol % 2) << extra) + 1 + take_bits(&own->in, extra);
        if (distance > own->done || length > own->bytes - own->done)
            return 0;
        for (; length > 0; length--, own->done++)
            own->to[own->done] = own->to[own->done - distance];
    }
}

/* Unpacks a block of bytes as they are. */
static int read_bytes(unpacking *own)
{
    size_t length;
    take_bits(&own->in, own->in.count % 8);
    length = take_bits(&own->in, 16);
    if ((length ^ take_bits(&own->in, 16)) != 0xffff || length > own->bytes - own->done)
        return 0;
    for (; length > 0; length--)
        own->to[own->done++] = (unsigned char)take_bits(&own->in, 8);
    return 1;
}

/* Unpacks an image to memory that the caller frees, with zeros behind it; NULL for a stream that is damaged, or where no
 * memory is left. */
static void *unpack(const unsigned long long *words, size_t packed, size_t bytes)
{
    unpacking *own = (unpacking *)malloc(sizeof *own);
    unsigned char *image = (unsigned char *)calloc(1, bytes + sizeof *words);
    int last = 0, is_sound = own != NULL && image != NULL;
    if (is_sound) {
        own->in.at = (const unsigned char *)words;
        own->in.end = own->in.at + packed;
        own->in.held = 0;
        own->in.count = 0;
        own->to = image;
        own->bytes = bytes;
        own->done = 0;
    }
    while (is_sound && !last) {
        unsigned kind;
        last = (int)take_bits(&own->in, 1);
        kind = take_bits(&own->in, 2);
        is_sound = kind == 0 ? read_bytes(own) : kind != 3 && read_codes(own, kind == 2) && read_symbols(own);
    }
    if (is_sound && own->done != bytes)
        is_sound = 0;
    free(own);
    if (is_sound)
        return image;
    free(image);
    return NULL;
}

