/* The two matrix products of a few outputs, in blocks that stay in registers.

       raw[c][j]  = sum_i x_j[i] W[i][c] + b[c]       i < d, c < k <= FEW
       sums[i][c] = sum_j a_j[i] slopes[c][j]         a_j = (x_j, 1)

   Included for each precision, with REAL, NAME and MASKED (a load of some lanes, the others zero)
   defined. A raw prediction is one chain of operations, the same for all records: products of
   features i = q, q + LANES, .. are added one after the other for each lane q, by fused
   multiply-adds, then the lanes, then b[c]. So it depends neither on which other records, outputs
   or silos are computed beside it, nor on how many there are. A sum adds the products of its own
   silo's records in their order; the slopes themselves are added lane by lane, then the lanes. */

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

/* A mask of the features beyond whole vectors. */
INLINE __m256i NAME(tail)(ptrdiff_t d)
{
    int64_t words[4] = {0};
    for (ptrdiff_t q = 0; q < d % LANES; q++)
        memset((REAL *)words + q, 0xff, sizeof(REAL));
    return _mm256_loadu_si256((const __m256i *)words);
}

/* `rows` records at a time; the last ones are filled up. `w` holds LANES features of each output in
   turn, zeros at the end. */
INLINE void NAME(dots)(const struct records *X, ptrdiff_t from, const NAME(vector) *w, REAL *out,
                       ptrdiff_t wide, const int rows, const int count)
{
    const ptrdiff_t n = X->n, d = X->d;
    const __m256i left = NAME(tail)(d);
    for (ptrdiff_t j = from; j < n; j += rows) {
        const ptrdiff_t height = n - j < rows ? n - j : rows;
        const NAME(vector) *weights = w;
        const REAL *at[8];
        NAME(vector) sum[8][FEW] = {{{0}}}, part[8];
        for (int r = 0; r < rows; r++)
            at[r] = ROW(X, j + (r < height ? r : 0));
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
WITH_AVX2 static void NAME(raws)(const struct call *call, const Py_buffer *params,
                                 const Py_buffer *out, void *space)
{
    const ptrdiff_t d = call->X.d, k = call->k, wide = STRIDE(out);
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        struct records X = silo(call, s);
        const REAL *from = ROW_OF(params, s);
        REAL *w = space, *to = (REAL *)out->buf + call->edges[s];
        memset(w + d / LANES * LANES * k, 0, LANES * k * sizeof(REAL));
        if (k == 1)
            memcpy(w, from, d * sizeof(REAL));
        else
            for (ptrdiff_t i = 0; i < d; i++)
                for (ptrdiff_t c = 0; c < k; c++)
                    w[(i / LANES * k + c) * LANES + i % LANES] = from[i * k + c];
        const ptrdiff_t n = X.n, last = n % 8 < 5 ? n % 8 : 0; /* fewer to fill up */
        switch (k) {
        case 1:
            X.n = n - last;
            NAME(dots)(&X, 0, space, to, wide, 8, 1);
            X.n = n;
            NAME(dots)(&X, n - last, space, to, wide, 4, 1);
            break;
        case 2: NAME(dots)(&X, 0, space, to, wide, 4, 2); break;
        case 3: NAME(dots)(&X, 0, space, to, wide, 4, 3); break;
        case 4: NAME(dots)(&X, 0, space, to, wide, 3, 4); break;
        }
        for (ptrdiff_t c = 0; X.intercept && c < k; c++)
            for (ptrdiff_t j = 0; j < n; j++) to[c * wide + j] += from[d * k + c];
    }
}

/* Add records j to j + rows times their slopes to `sum`, which has room for whole vectors. */
INLINE void NAME(gather)(const struct records *X, ptrdiff_t j, const REAL *slopes,
                         NAME(vector) *sum, __m256i left, const int rows)
{
    const REAL *x[8];
    ptrdiff_t i = 0;
    for (int r = 0; r < rows; r++) x[r] = ROW(X, j + r);
    for (; i + LANES <= X->d; i += LANES, sum++)
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
            *sum += *(const NAME(unaligned) *)(x[r] + i) * slopes[j + r];
    for (int r = 0; i < X->d && r < rows; r++)
        *sum += (NAME(vector))MASKED(x[r] + i, left) * slopes[j + r];
}

/* Each silo's sums, at most `chunk` records at a time. */
WITH_AVX2 static void NAME(sums)(const struct call *call, const Py_buffer *slopes,
                                 const Py_buffer *out, void *space)
{
    const ptrdiff_t d = call->X.d, k = call->k;
    const __m256i left = NAME(tail)(d);
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        const struct records X = silo(call, s);
        const ptrdiff_t parts = (X.n + call->chunk - 1) / call->chunk;
        REAL *to = ROW_OF(out, s);
        memset(to, 0, out->shape[1] * sizeof(REAL));
        for (ptrdiff_t p = 0; p < parts * k; p++) {
            const ptrdiff_t c = p % k, end = (large)X.n * (p / k + 1) / parts;
            const REAL *z = (const REAL *)ROW_OF(slopes, c) + call->edges[s];
            NAME(vector) lanes = {0};
            REAL rest = 0;
            ptrdiff_t j = (large)X.n * (p / k) / parts, q = j;
            memset(space, 0, (d + LANES) * sizeof(REAL));
            for (; j + 8 <= end; j += 8) NAME(gather)(&X, j, z, space, left, 8);
            for (; j < end; j++) NAME(gather)(&X, j, z, space, left, 1);
            for (ptrdiff_t i = 0; i < d; i++) to[i * k + c] += ((REAL *)space)[i];
            for (; q + LANES <= end; q += LANES) lanes += *(const NAME(unaligned) *)(z + q);
            for (; q < end; q++) rest += z[q];
            if (X.intercept) to[d * k + c] += NAME(total)(lanes) + rest;
        }
    }
}

#undef LANES
#undef INLINE
#undef REAL
#undef MASKED
#undef NAME
