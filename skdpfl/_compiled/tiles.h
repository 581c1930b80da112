/* The two matrix products of a group of silos, in blocks that stay in registers.

       raw[c][j]  = b[c] + sum_i x_j[i] W[i][c]            i < d, c < k
       sums[i][c] = sum_j a_j[i] slopes[c][j]              a_j = (x_j, 1)

   Included for each precision and width of vectors, with REAL and BYTES (of a vector) defined. TILE
   by WIDE vectors are in registers at once. Records are read where they are, in row rows[j] of a
   table. Every number is one chain of fused multiply-adds, over i or over j in order, that starts
   from b[c] or from 0: it depends neither on which other records, classes or silos are computed
   beside it, nor on the width of vectors. */

#define LANES ((ptrdiff_t)(BYTES / sizeof(REAL)))
#define WIDE 3
#define TILE (BYTES / 8)
#define FAST JOINED(WITH, BYTES)
#define INLINE FAST __attribute__((always_inline)) static inline

typedef REAL NAME(vector) __attribute__((vector_size(BYTES)));
/* the same at any address */
typedef REAL NAME(unaligned) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));

/* Call a function for so many numbers in one, two or three vectors. */
#define IN_VECTORS(numbers, function, ...)                                                       \
    ((numbers) > 2 * LANES ? function(__VA_ARGS__, 3)                                            \
     : (numbers) > LANES   ? function(__VA_ARGS__, 2)                                            \
                           : function(__VA_ARGS__, 1))

/* sum[r][v] += x w[v], for TILE numbers x in turn: EACH(r) is the r-th. */
#define ADD_PRODUCTS(sum, w, count, EACH)                                                        \
    do {                                                                                         \
        NAME(vector) term[WIDE];                                                                 \
        for (int v = 0; v < count; v++) term[v] = (w)[v];                                        \
        _Pragma("GCC unroll 8") for (int r = 0; r < TILE; r++)                                   \
            for (int v = 0; v < count; v++) sum[r][v] += EACH(r) * term[v];                      \
    } while (0)

/* Raw predictions of up to TILE records in count LANES classes. On the way records are copied to
   `packed`, unless that is NULL, and those that come `next` are fetched into the cache. */
INLINE void NAME(raw_tile)(const struct records *X, const REAL *const x[TILE],
                           const REAL *const next[TILE], ptrdiff_t height, const NAME(vector) *w,
                           REAL *packed, REAL out[TILE][WIDE * LANES], const int count)
{
    NAME(vector) sum[TILE][WIDE];
    const NAME(vector) *b = w + X->d * count;
    for (int r = 0; r < TILE; r++)
        for (int v = 0; v < count; v++) sum[r][v] = b[v];
    for (ptrdiff_t i = 0; i < X->d; i += LANES, packed += packed ? X->n * LANES : 0) {
        const ptrdiff_t stop = X->d - i < LANES ? X->d : i + LANES;
        for (int r = 0; r < TILE; r++) __builtin_prefetch(next[r] + i);
        if (packed && stop == i + LANES)
            for (ptrdiff_t r = 0; r < height; r++)
                ((NAME(vector) *)packed)[r] = *(const NAME(unaligned) *)(x[r] + i);
        else if (packed)
            for (ptrdiff_t r = 0; r < height; r++)
                for (ptrdiff_t q = 0; q < LANES; q++)
                    packed[r * LANES + q] =
                        i + q < X->d ? x[r][i + q] : X->intercept && i + q == X->d;
        for (ptrdiff_t q = i; q < stop; q++) {
#define OF_RECORD(r) x[r][q]
            ADD_PRODUCTS(sum, w + q * count, count, OF_RECORD);
        }
    }
    if (packed && X->intercept && X->d % LANES == 0)
        for (ptrdiff_t r = 0; r < height; r++) {
            ((NAME(vector) *)packed)[r] = (NAME(vector)){0};
            packed[r * LANES] = 1;
        }
    for (int r = 0; r < TILE; r++)
        for (int v = 0; v < count; v++) *(NAME(unaligned) *)(out[r] + v * LANES) = sum[r][v];
}

/* Raw predictions of a silo in `columns` <= count LANES classes, whose weights are copied to `w`. */
INLINE void NAME(raw_block)(const struct records *X, const REAL *params, ptrdiff_t k,
                            ptrdiff_t columns, REAL *raw, ptrdiff_t stride, REAL *packed, REAL *w,
                            const int count)
{
    const ptrdiff_t wide = count * LANES, d = X->d;
    for (ptrdiff_t i = 0; i <= d; i++) {
        REAL *row = w + i * wide;
        memset(row + (count - 1) * LANES, 0, LANES * sizeof(REAL));
        if (i < d || X->intercept)
            memcpy(row, params + i * k, columns * sizeof(REAL));
        else
            memset(row, 0, wide * sizeof(REAL));
    }
    for (ptrdiff_t j = 0; j < X->n; j += TILE) {
        const REAL *x[TILE], *next[TILE];
        REAL out[TILE][WIDE * LANES];
        const ptrdiff_t left = X->n - j, height = left < TILE ? left : TILE;
        for (int r = 0; r < TILE; r++) {
            x[r] = row(X, j + (r < height ? r : 0));
            next[r] = ROW(X, j + (r + TILE < left ? r + TILE : 0));
        }
        NAME(raw_tile)(X, x, next, height, (const NAME(vector) *)w,
                       packed ? packed + j * LANES : NULL, out, count);
        for (ptrdiff_t c = 0; c < columns; c++)
            for (ptrdiff_t r = 0; r < height; r++) raw[c * stride + j + r] = out[r][c];
    }
}

/* Sums of a silo over records `from` to `to` in `columns` classes, added to what `sums` holds. */
INLINE void NAME(sum_block)(const struct records *X, ptrdiff_t from, ptrdiff_t to,
                            const REAL *packed, const REAL *slopes, ptrdiff_t stride, ptrdiff_t k,
                            ptrdiff_t columns, REAL *sums, REAL *s, const int count)
{
    const ptrdiff_t wide = count * LANES, n = to - from, D = X->d + X->intercept;
    for (ptrdiff_t j = 0; j < n; j++)
        memset(s + j * wide + (count - 1) * LANES, 0, LANES * sizeof(REAL));
    for (ptrdiff_t j = 0; j < n; j += LANES)
        for (ptrdiff_t c = 0; c < columns; c++)
            for (ptrdiff_t q = j; q < n && q < j + LANES; q++)
                s[q * wide + c] = slopes[c * stride + from + q];
    for (ptrdiff_t i = 0; i < D; i += TILE) {
        const REAL *x = packed + (i / LANES * X->n + from) * LANES + i % LANES;
        NAME(vector) sum[TILE][WIDE];
        for (int r = 0; r < TILE; r++)
            for (int v = 0; v < count; v++) sum[r][v] = (NAME(vector)){0};
        for (ptrdiff_t j = 0; j < n; j++, x += LANES) {
#define OF_FEATURE(r) x[r]
            ADD_PRODUCTS(sum, (const NAME(vector) *)s + j * count, count, OF_FEATURE);
        }
        for (int r = 0; r < TILE && i + r < D; r++) {
            const REAL *row = (const REAL *)sum[r];
            REAL *out = sums + (i + r) * k;
            for (ptrdiff_t c = 0; c < columns; c++) out[c] += row[c];
        }
    }
}

/* One silo's raw predictions, and its sums of at most `chunk` records, by blocks of classes. */
FAST static void NAME(raw)(const struct records *X, const void *params, ptrdiff_t k, void *raw,
                           ptrdiff_t stride, void *packed, void *space)
{
    for (ptrdiff_t c = 0; c < k; c += WIDE * LANES) {
        const ptrdiff_t left = k - c, columns = left < WIDE * LANES ? left : WIDE * LANES;
        const REAL *from = (const REAL *)params + c;
        REAL *out = (REAL *)raw + c * stride;
        IN_VECTORS(columns, NAME(raw_block), X, from, k, columns, out, stride, c ? NULL : packed,
                   space);
    }
}

FAST static void NAME(sum)(const struct records *X, const void *packed, const void *slopes,
                           ptrdiff_t stride, ptrdiff_t k, ptrdiff_t chunk, void *sums, void *space)
{
    const ptrdiff_t parts = (X->n + chunk - 1) / chunk, n = X->n;
    memset(sums, 0, (X->d + X->intercept) * k * sizeof(REAL));
    for (ptrdiff_t p = 0; p < parts; p++)
        for (ptrdiff_t c = 0; c < k; c += WIDE * LANES) {
            const ptrdiff_t left = k - c, columns = left < WIDE * LANES ? left : WIDE * LANES;
            const REAL *s = (const REAL *)slopes + c * stride;
            REAL *to = (REAL *)sums + c;
            IN_VECTORS(columns, NAME(sum_block), X, (large)n * p / parts,
                       (large)n * (p + 1) / parts, packed, s, stride, k, columns, to, space);
        }
}

#undef REAL
