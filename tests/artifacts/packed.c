/* Unpacks streams of deflate by the code of the library: PROGRAM BYTES <STREAM >UNPACKED. Exit code 1 for a stream that is
 * refused. With --damage, flips each bit of the stream and cuts it everywhere, which must be survived. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packed_source.c"

static unsigned long long words[1 << 17];

/* Unpacks a copy whose end is that of the allocation. */
static void *unpacked(const unsigned char *stream, size_t packed, size_t bytes)
{
    unsigned char *copy = (unsigned char *)malloc(packed > 0 ? packed : 1);
    void *image;
    memcpy(copy, stream, packed);
    image = unpack((const unsigned long long *)(const void *)copy, packed, bytes);
    free(copy);
    return image;
}

int main(int count, char **arguments)
{
    const size_t packed = fread(words, 1, sizeof words, stdin), bytes = (size_t)atol(arguments[1]);
    unsigned char *stream = (unsigned char *)words, *image;
    size_t i;
    if (count > 2) {
        for (i = 0; i < packed * 8; i++) {
            stream[i / 8] ^= (unsigned char)(1 << i % 8);
            free(unpacked(stream, packed, bytes));
            stream[i / 8] ^= (unsigned char)(1 << i % 8);
        }
        for (i = 0; i < packed; i++)
            free(unpacked(stream, i, bytes));
        free(unpacked(stream, packed, bytes + 1));
        free(unpacked(stream, packed, bytes > 0 ? bytes - 1 : 0));
        return 0;
    }
    image = (unsigned char *)unpacked(stream, packed, bytes);
    if (image == NULL)
        return 1;
    for (i = 0; i < sizeof words[0]; i++)
        if (image[bytes + i] != 0)
            return 2;
    fwrite(image, 1, bytes, stdout);
    free(image);
    return 0;
}
