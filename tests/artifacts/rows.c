/* Prints how the formulas of an exported C artifact see rows, of M N K lda ldb ldc and an alignment. */
#include "gemm_tuned.c"

int main(int count, char **words)
{
    product own = { 0, 0, GEMM_TUNED_F32, 0, 0, { 0, 0, 0, 1, 0, 0, 0 }, { 0, 0, 0 }, { 4, 4, 4 }, 0, 0 };
    long long given[7] = { 0 }, p[7];
    int i;
    for (i = 1; i < count && i <= 7; i++)
        given[i - 1] = atoll(words[i]);
    for (i = 0; i < 3; i++) {
        own.p[i] = given[i];
        own.p[4 + i] = given[3 + i];
    }
    describe(&own, (int)given[6], p);
    printf("%lld %lld %lld\n", p[4], p[5], p[6]);
    return 0;
}
