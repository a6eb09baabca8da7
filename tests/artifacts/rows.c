/* Prints how the formulas of an exported C artifact see rows, of M N K lda ldb ldc and an alignment. */
#include <stdio.h>
#include <stdlib.h>

#include "gemm_tuned.c"

int main(int count, char **words)
{
    int given[7] = { 0 }, lengths[3], i;
    long long p[7];
    for (i = 1; i < count && i <= 7; i++)
        given[i - 1] = atoi(words[i]);
    lengths[0] = given[2];
    lengths[1] = lengths[2] = given[1];
    describe(p, given[0], given[1], given[2], given + 3, lengths, (uintptr_t)given[6], 4);
    printf("%lld %lld %lld\n", p[4], p[5], p[6]);
    return 0;
}
