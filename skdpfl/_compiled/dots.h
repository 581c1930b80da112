/* Raw predictions of a few outputs, in blocks that stay in registers.

       out[c][j] = sum_i x_j[i] W[i][c]            i < d, c < k <= FEW

   Included for each precision, with REAL, NAME and MASKED (a load of some lanes, the others zero)
   defined. Every number is one chain of operations,
   the same for all records: products of features i = q, q + LANES, .. are added one after the other
   for each lane q, by fused multiply-adds, then the lanes. So it depends neither on which
   other records, outputs or silos are computed beside it, nor on how many there are. */

#define LANES ((ptrdiff_t)(32 / sizeof(REAL)))
#define INLINE WITH_AVX2 __attribute__((always_inline)) static inline

typedef REAL NAME(vector) __attribute__((vector_size(32)));
typedef REAL NAME(half) __attribute__((vector_size(16)));
/* the same at any address */
typedef REAL NAME(unaligned) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* Add the products of a vector of features of `rows` records and of `count` outputs. */
INLINE void NAME(add)(NAME(vector) sum[][FEW], const NAME(vector) *x, const NAME(vector) *w,
                      const int rows, const int count)
{
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) sum[r][c] += x[r] * w[c];
}

/* The sum of the lanes: the first half and the second, then pairs. */
INLINE REAL NAME(total)(NAME(vector) sum)
{
    NAME(half) low, high;
    memcpy(&low, &sum, 16);
    memcpy(&high, (const char *)&sum + 16, 16);
    low += high;
    return sizeof(REAL) == 8 ? low[0] + low[1]
                             : (low[0] + low[2 % (LANES / 2)]) + (low[1] + low[3 % (LANES / 2)]);
}

/* `rows` records at a time; the last ones are filled up. `w` holds LANES features of each output in
   turn, zeros at the end. */
INLINE void NAME(dots)(const char *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d,
                       const NAME(vector) *w, REAL *out, ptrdiff_t wide, const int rows,
                       const int count)
{
    int64_t words[4] = {0};
    for (ptrdiff_t q = 0; q < d % LANES; q++)
        memset((REAL *)words + q, 0xff, sizeof(REAL));
    const __m256i left = _mm256_loadu_si256((const __m256i *)words);
    for (ptrdiff_t j = 0; j < n; j += rows) {
        const ptrdiff_t height = n - j < rows ? n - j : rows;
        const NAME(vector) *weights = w;
        const REAL *at[8];
        NAME(vector) sum[8][FEW] = {{{0}}}, part[8];
        for (int r = 0; r < rows; r++)
            at[r] = (const REAL *)(x + (j + (r < height ? r : 0)) * stride);
        ptrdiff_t i = 0;
        for (; i + LANES <= d; i += LANES, weights += count) {
            for (int r = 0; r < rows; r++) part[r] = *(const NAME(unaligned) *)(at[r] + i);
            NAME(add)(sum, part, weights, rows, count);
        }
        if (i < d) {
            for (int r = 0; r < rows; r++) part[r] = (NAME(vector))MASKED(at[r] + i, left);
            NAME(add)(sum, part, weights, rows, count);
        }
        for (ptrdiff_t r = 0; r < height; r++)
            for (int c = 0; c < count; c++) out[c * wide + j + r] = NAME(total)(sum[r][c]);
    }
}

/* All silos, one after the other. */
WITH_AVX2 static void NAME(all)(const struct call *call, const Py_buffer *params,
                                const Py_buffer *out, void *space)
{
    const ptrdiff_t d = call->X.d, k = call->k, wide = STRIDE(out);
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        const ptrdiff_t n = call->edges[s + 1] - call->edges[s];
        const char *x = call->X.table + call->edges[s] * call->X.stride;
        const REAL *from = ROW_OF(params, s);
        REAL *w = space, *to = (REAL *)out->buf + call->edges[s];
        memset(w + d / LANES * LANES * k, 0, LANES * k * sizeof(REAL));
        if (k == 1)
            memcpy(w, from, d * sizeof(REAL));
        else
            for (ptrdiff_t i = 0; i < d; i++)
                for (ptrdiff_t c = 0; c < k; c++)
                    w[(i / LANES * k + c) * LANES + i % LANES] = from[i * k + c];
        const ptrdiff_t last = n % 8 < 5 ? n % 8 : 0; /* fewer to fill up */
        switch (k) {
        case 1:
            NAME(dots)(x, call->X.stride, n - last, d, space, to, wide, 8, 1);
            NAME(dots)(x + (n - last) * call->X.stride, call->X.stride, last, d, space,
                       to + n - last, wide, 4, 1);
            break;
        case 2: NAME(dots)(x, call->X.stride, n, d, space, to, wide, 4, 2); break;
        case 3: NAME(dots)(x, call->X.stride, n, d, space, to, wide, 4, 3); break;
        case 4: NAME(dots)(x, call->X.stride, n, d, space, to, wide, 3, 4); break;
        }
    }
}

#undef LANES
#undef INLINE
#undef REAL
#undef MASKED
#undef NAME
