/* Random numbers as a function of seed and position: Philox 4x32-10 (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", 2011) and the inverse of the normal distribution by AS 241
 * (Wichura 1988). Only + - * / sqrt and integers, so that every machine gets the same bits. */
#ifndef TP_RANDOM_H
#define TP_RANDOM_H

/* As in shared_math.h. */
#ifndef __CUDACC_RTC__
#include <math.h>
#include <stdint.h>
#endif

static inline void tp_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x0 * 0xD2511F53U, b = (uint64_t)x2 * 0xCD9E8D57U;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* The bits of numbers 2 pair and 2 pair + 1. */
static inline void tp_random_pair(uint64_t seed, uint64_t pair, uint64_t bits[2])
{
    uint32_t counter[4] = {(uint32_t)pair, (uint32_t)(pair >> 32), 0, 0}, word[4];
    tp_philox(counter, seed, word);
    bits[0] = (uint64_t)word[0] << 32 | word[1];
    bits[1] = (uint64_t)word[2] << 32 | word[3];
}

/* In [0, 1): a multiple of 2^-digits, digits <= 53. */
static inline double tp_random_uniform_of(uint64_t bits, int digits)
{
    return (double)(bits >> (64 - digits)) / (double)(UINT64_C(1) << digits);
}

/* ln x for 0 < x < 1, normal: m 2^e with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh((m - 1)/(m + 1)).
 */
static inline double tp_random_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), t = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2) sum = sum * t + 1.0 / k;
    return (double)e * 0.69314718055994531 + 2 * s * sum;
}

static inline double tp_random_ratio(const double *above, const double *below, double r)
{
    double a = above[7], b = below[7];
    for (int i = 6; i >= 0; i--) {
        a = a * r + above[i];
        b = b * r + below[i];
    }
    return a / b;
}

/* z with P(normal < z) = the middle of the bits' cell of [0, 1); 2^53 cells. */
static inline double tp_random_normal_of(uint64_t bits)
{
    static const double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                               1.9715909503065514427e3, 1.3731693765509461125e4,
                               4.5921953931549871457e4, 6.7265770927008700853e4,
                               3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[] = {1.0,
                               4.2313330701600911252e1,
                               6.8718700749205790830e2,
                               5.3941960214247511077e3,
                               2.1213794301586595867e4,
                               3.9307895800092710610e4,
                               2.8729085735721942674e4,
                               5.2264952788528545610e3};
    static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                               5.76949722146069140550e0,  3.64784832476320460504e0,
                               1.27045825245236838258e0,  2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                               1.78482653991729133580e0,  2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    uint64_t cell = bits >> 11;
    double q = ((double)cell - 0x1p52 + 0.5) * 0x1p-53; /* p - 1/2, exact */
    if (fabs(q) <= 0.425) return q * tp_random_ratio(a, b, 0.180625 - q * q);
    double tail = q < 0 ? ((double)cell + 0.5) * 0x1p-53 : (0x1p53 - (double)cell - 0.5) * 0x1p-53;
    double r = sqrt(-tp_random_log(tail));
    double z = r <= 5 ? tp_random_ratio(c, d, r - 1.6) : tp_random_ratio(e, f, r - 5);
    return q < 0 ? -z : z;
}

#endif
