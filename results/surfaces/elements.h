/* Elements of matrices for measure.c: types, random numbers, and numbers as doubles. */
#ifndef SURFACES_ELEMENTS_H
#define SURFACES_ELEMENTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "gemm_tuned.h"

static const char *const names[] = { "f32", "f16", "bf16", "i32", "i8" };
static const size_t bytes_of[] = { 4, 2, 2, 4, 1 };
/* Half a unit in the last place of a number, relative to it. */
static const double roundoffs[] = { 1.0 / (1 << 24), 1.0 / (1 << 11), 1.0 / (1 << 8), 0, 0 };
/* The step between the numbers next to 0, of which f16 has few. */
static const double leasts[] = { 1e-30, 1.0 / (1 << 24), 1e-30, 1e-30, 1e-30 };

static int type_named(const char *name)
{
    int type;
    for (type = GEMM_TUNED_F32; type <= GEMM_TUNED_I8; type++)
        if (strcmp(names[type], name) == 0)
            return type;
    return GEMM_TUNED_DEFAULT;
}

static uint64_t state = 1;

static uint32_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* Uniform in [-1, 1). */
static float uniform(void) { return (float)(random_bits() >> 8) / 8388608.0f - 1; }

/* The bits of a number in 16 bits, without those that do not fit. */
static uint16_t shortened(float value, int type)
{
    uint32_t bits, exponent;
    memcpy(&bits, &value, 4);
    if (type == GEMM_TUNED_BF16)
        return (uint16_t)(bits >> 16);
    exponent = bits >> 23 & 255;
    if (exponent < 113)
        return (uint16_t)(bits >> 16 & 0x8000u);
    return (uint16_t)((bits >> 16 & 0x8000u) | (exponent - 112) << 10 | (bits >> 13 & 0x3ffu));
}

static double of_16_bits(uint16_t bits, int type)
{
    uint32_t wide = (uint32_t)bits << 16;
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    float value;
    if (type == GEMM_TUNED_BF16) {
        memcpy(&value, &wide, 4);
        return (double)value;
    }
    if (exponent == 31)
        return NAN;
    fraction = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -fraction : fraction;
}

static double element(const void *at, int type, size_t i)
{
    switch (type) {
    case GEMM_TUNED_F32:
        return (double)((const float *)at)[i];
    case GEMM_TUNED_I32:
        return ((const int32_t *)at)[i];
    case GEMM_TUNED_I8:
        return ((const int8_t *)at)[i];
    default:
        return of_16_bits(((const uint16_t *)at)[i], type);
    }
}

/* Random elements: uniform in [-factor, factor), or all numbers of 8 bits. */
static void fill(void *at, int type, size_t count, float factor)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (type == GEMM_TUNED_F32)
            ((float *)at)[i] = uniform() * factor;
        else if (type == GEMM_TUNED_I8)
            ((int8_t *)at)[i] = (int8_t)(uint8_t)(random_bits() >> 24);
        else if (type == GEMM_TUNED_I32)
            ((int32_t *)at)[i] = (int32_t)(random_bits() >> 22) - 512;
        else
            ((uint16_t *)at)[i] = shortened(uniform() * factor, type);
}

#endif
