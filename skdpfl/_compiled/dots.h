/* The two matrix products of a few outputs, in blocks that stay in registers, and what is between.

       raw[c][j]  = sum_i x_j[i] W[i][c] + b[c]       i < d, c < k <= FEW
       sums[i][c] = sum_j a_j[i] slopes[c][j]         a_j = (x_j, 1)

   Included after tiles.h, of whose macros it uses some, for each precision, with REAL, INTEGER,
   MASKED (a load of some lanes, the others zero) and CUT (to limits; NaN stays) defined. A raw
   prediction is one chain, the same for all records: products of features i = q, q + LANES, .. are
   added in turn for each lane q, by fused multiply-adds, then the lanes, then b[c]. So it depends
   neither on which other records, outputs or silos are computed beside it, nor on how many there
   are. A sum adds the products of its own silo's records in their order; slopes are added lane by
   lane, then the lanes. */

typedef REAL NAME(vector) __attribute__((vector_size(32)));
typedef REAL NAME(half) __attribute__((vector_size(16)));
typedef INTEGER NAME(integers) __attribute__((vector_size(32)));
/* the same at any address */
typedef REAL NAME(unaligned) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* Write the columns of curves: as many as each has, or one or two vectors that overlap the next. */
ROUNDED __attribute__((always_inline)) static inline void
NAME(lines)(const struct curves *of, const REAL *x, const uint8_t *cells, REAL *to, const int count)
{
    const REAL *slopes = of->slopes, *levels = of->levels;
    const int64_t *where = of->where, *end = where + of->count, *width = of->widths;
    for (; where < end; where++, cells++, width++) {
        const ptrdiff_t m = *width, most = count < 3 ? count * LANES : m;
        const NAME(vector) u = x[*where] - (NAME(vector)){0};
        const REAL *level = levels + *cells * m;
        _Pragma("GCC unroll 2") for (ptrdiff_t k = 0; k < most; k += LANES)
            *(NAME(unaligned) *)(to + k) = u * *(const NAME(unaligned) *)(slopes + k) +
                                           *(const NAME(unaligned) *)(level + k);
        to += m, slopes += m, levels += CELLS * m;
    }
}

/* Write all columns of a record, as NumPy computes them, and less than BEYOND more. */
ROUNDED __attribute__((noinline)) static void
NAME(expand)(const struct curves *of, const void *values, const uint8_t *cells, void *line)
{
    const REAL *x = values, *restrict factors = of->factors;
    REAL *restrict to = line;
    for (ptrdiff_t i = 0; i < of->before; i++) to[i] = x[i] * factors[i];
    IN_VECTORS(of->widest, NAME(lines), of, x, cells, to + of->before);
    memcpy(to + of->d - of->others, x + of->stored - of->others, of->others * sizeof(REAL));
}

/* Add the products of a vector of features of `rows` records, cut to limits if there are any, with
   weights of `count` outputs. */
INLINE void NAME(add)(NAME(vector) sum[][FEW], const REAL *const *x, ptrdiff_t i, const int whole,
                      __m256i left, const REAL *low, ptrdiff_t apart, const NAME(vector) *w,
                      const int rows, const int count)
{
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {
        NAME(vector) v = whole ? (NAME(vector)) * (const NAME(unaligned) *)(x[r] + i)
                               : (NAME(vector))MASKED(x[r] + i, left);
        if (low) v = CUT(v, *(const NAME(unaligned) *)(low + i),
                         *(const NAME(unaligned) *)(low + apart + i));
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) sum[r][c] += v * w[c];
    }
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
    static const int64_t words[8] = {-1, -1, -1, -1};
    return _mm256_loadu_si256((const void *)((const REAL *)words + LANES - d % LANES));
}

/* `rows` records at a time; the last ones are filled up. `w` holds LANES features of each output in
   turn, zeros at the end. */
INLINE void NAME(dots)(const struct records *X, ptrdiff_t from, ptrdiff_t n, const NAME(vector) *w,
                       REAL *out, ptrdiff_t wide, const int rows, const int count)
{
    const ptrdiff_t d = X->d;
    const REAL *low = X->limits;
    const __m256i left = NAME(tail)(d);
    const NAME(vector) none = {0};
    for (ptrdiff_t j = from; j < n; j += rows) {
        const ptrdiff_t height = n - j < rows ? n - j : rows;
        const NAME(vector) *weights = w;
        const REAL *at[8];
        NAME(vector) sum[8][FEW];
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
            _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) sum[r][c] = none;
        for (int r = 0; r < rows; r++) at[r] = row(X, j + (r < height ? r : 0));
        ptrdiff_t i = 0;
        for (; i + LANES <= d; i += LANES, weights += count)
            NAME(add)(sum, at, i, 1, left, low, d + BEYOND, weights, rows, count);
        if (i < d) NAME(add)(sum, at, i, 0, left, low, d + BEYOND, weights, rows, count);
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
            _Pragma("GCC unroll 4") for (int c = 0; c < count; c++)
                if (r < height) out[c * wide + j + r] = NAME(total)(sum[r][c]);
    }
}

/* Write the weights of `k` outputs as they are read, zeros at the end. */
static void NAME(pack)(const REAL *params, ptrdiff_t d, ptrdiff_t k, REAL *w)
{
    memset(w + d / LANES * LANES * k, 0, LANES * k * sizeof(REAL));
    if (k == 1) memcpy(w, params, d * sizeof(REAL));
    for (ptrdiff_t i = 0; k > 1 && i < d; i++)
        for (ptrdiff_t c = 0; c < k; c++)
            w[(i / LANES * k + c) * LANES + i % LANES] = params[i * k + c];
}

/* Raw predictions in `k` rows, `wide` numbers apart; weights are in `space` if that is `ready`. */
WITH_32 static void NAME(raw)(const struct records *X, const void *params, ptrdiff_t k, void *raw,
                              ptrdiff_t wide, void *ready, void *space)
{
    REAL *out = raw;
    if (ready == NULL) NAME(pack)(params, X->d, k, space);
    const ptrdiff_t n = X->n, last = n % 8 < 5 ? n % 8 : 0; /* fewer to fill up */
    switch (k) {
    case 1:
        NAME(dots)(X, 0, n - last, space, out, wide, 8, 1);
        NAME(dots)(X, n - last, n, space, out, wide, 4, 1);
        break;
    case 2: NAME(dots)(X, 0, n, space, out, wide, 4, 2); break;
    case 3: NAME(dots)(X, 0, n, space, out, wide, 4, 3); break;
    case 4: NAME(dots)(X, 0, n, space, out, wide, 3, 4); break;
    }
    for (ptrdiff_t c = 0; X->intercept && c < k; c++)
        for (ptrdiff_t j = 0; j < n; j++) out[c * wide + j] += ((const REAL *)params)[X->d * k + c];
}

/* Add records j to j + rows times their slopes to the sum, which has room for whole vectors.
   Records of slope 0 are not read: they may not be finite. */
INLINE void NAME(gather)(const struct records *X, ptrdiff_t j, const REAL *slopes, void *space,
                         __m256i left, const int rows)
{
    const REAL *x[8];
    NAME(vector) *sum = SUM_OF(space, X->d);
    ptrdiff_t i = 0;
    for (int r = 0; r < rows; r++)
        x[r] = slopes[j + r] == 0 ? ZEROS(space, X->d) : row(X, j + r);
    for (; i + LANES <= X->d; i += LANES, sum++) {
        NAME(vector) total = *sum; /* in a register: what is read could be what was written */
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
            total += *(const NAME(unaligned) *)(x[r] + i) * slopes[j + r];
        *sum = total;
    }
    if (i == X->d) return;
    NAME(vector) total = *sum;
    for (int r = 0; r < rows; r++) total += (NAME(vector))MASKED(x[r] + i, left) * slopes[j + r];
    *sum = total;
}

/* e^x for |x| <= LARGEST: 2^n e^r, |r| <= log(2) / 2, by a Taylor series. */
INLINE NAME(vector) NAME(exponential)(NAME(vector) x)
{
    const NAME(vector) shifted = x * (REAL)1.4426950408889634074 + SHIFT, n = shifted - SHIFT;
    const NAME(vector) r = (x - n * LOG2_HIGH) - n * LOG2_LOW;
    NAME(vector) sum = r * (1 / (REAL)TERMS) + 1;
    _Pragma("GCC unroll 16") for (int i = TERMS - 1; i > 0; i--) sum = sum * r * (1 / (REAL)i) + 1;
    return (NAME(vector))((NAME(integers))sum + ((NAME(integers))shifted << MANTISSA));
}

/* Each lane of `a` where `mask` is set, else of `b`. */
INLINE NAME(vector) NAME(choose)(NAME(integers) mask, NAME(vector) a, NAME(vector) b)
{
    return (NAME(vector))(((NAME(integers))a & mask) | ((NAME(integers))b & ~mask));
}

/* Replace raw predictions z, with room for whole vectors, by slopes z - y, or 1 / (1 + e^-z) - y,
   cut to `limits`; by 0 where anything is not finite, the limits in that they are NaN. LABEL_FREE
   slopes are first multiplied by min(1, limit / largest slope over both labels). */
WITH_32 static void NAME(slopes)(REAL *z, const REAL *y, const REAL *limits, ptrdiff_t n,
                                   enum link link)
{
    const __m256i left = NAME(tail)(n), all = _mm256_set1_epi32(-1);
    const NAME(vector) none = {0}, one = none + 1, far = none + LARGEST;
    for (ptrdiff_t j = 0; j < n; j += LANES) {
        const int whole = j + LANES <= n;
        NAME(unaligned) *at = (NAME(unaligned) *)(z + j);
        NAME(vector) s = *at;
        const NAME(vector) target = (NAME(vector))MASKED(y + j, whole ? all : left);
        const NAME(vector) most = (NAME(vector))MASKED(limits + j, whole ? all : left);
        const NAME(integers) known = (s == s) & (most == most);
        if (link != IDENTITY) {
            s = NAME(choose)(s > far, far, NAME(choose)(s < -far, -far, s));
            s = 1 / (1 + NAME(exponential)(-s));
        }
        s -= target;
        const NAME(integers) good = known & (s - s == none);
        if (link == LABEL_FREE) {
            const NAME(vector) own = NAME(choose)(s < none, -s, s), other = one - own;
            const NAME(vector) factor = most / NAME(choose)(own > other, own, other);
            s *= NAME(choose)(factor < one, factor, one);
        }
        s = NAME(choose)(s > most, most, NAME(choose)(s < -most, -most, s));
        *at = NAME(choose)(good, s, none);
    }
}

/* Slopes of one output, of records from number `first` on, by the weights in `space`. */
WITH_32 static void NAME(found)(const struct records *X, const void *params,
                                const struct slopes *of, ptrdiff_t first, REAL *z, void *space)
{
    NAME(raw)(X, params, 1, z, 0, space, space);
    NAME(slopes)(z, (const REAL *)of->y + first, (const REAL *)of->limits + first, X->n, of->link);
    for (ptrdiff_t j = 0; of->weights && j < X->n; j++)
        z[j] *= ((const REAL *)of->weights)[first + j];
}

/* A silo's sums of slopes in `k` rows, `wide` numbers apart, at most `chunk` records at a time.
   With `of`, slopes of one output are found while the records are in the cache. */
WITH_32 static void NAME(sum)(const struct records *X, const void *params, ptrdiff_t k,
                              const struct slopes *of, ptrdiff_t first, void *slopes,
                              ptrdiff_t wide, ptrdiff_t chunk, void *sums, void *space)
{
    REAL *to = sums;
    const ptrdiff_t d = X->d, parts = (X->n + chunk - 1) / chunk, most = X->of.cells ? 8 : 256;
    const __m256i left = NAME(tail)(d);
    struct records block = *X;
    memset(to, 0, (d + X->intercept) * k * sizeof(REAL));
    if (of) NAME(pack)(params, d, 1, space);
    for (ptrdiff_t p = 0; p < parts * k; p++) {
        const ptrdiff_t c = p % k, q = p / k;
        const ptrdiff_t end = q + 1 < parts ? (large)X->n * (q + 1) / parts : X->n;
        REAL *z = (REAL *)slopes + c * wide, *sum = SUM_OF(space, d), rest = 0;
        NAME(vector) lanes = {0};
        ptrdiff_t j = q ? (large)X->n * q / parts : 0, from = j;
        memset(sum, 0, (d + LANES) * sizeof(REAL));
        for (; j < end; j += block.n) {
            ptrdiff_t i = 0;
            block.rows = X->rows + j, block.n = end - j < most ? end - j : most, block.made = 0;
            for (; X->of.cells && i < 8 && j + 8 + i < end; i++) fetch(&block, 8 + i);
            i = 0;
            if (of) NAME(found)(&block, params, of, first + j, z + j, space), block.made = 1;
            for (; i + 8 <= block.n; i += 8) NAME(gather)(&block, i, z + j, space, left, 8);
            for (; i < block.n; i++) NAME(gather)(&block, i, z + j, space, left, 1);
        }
        for (ptrdiff_t i = 0; i < d; i++) to[i * k + c] += sum[i];
        for (; from + LANES <= end; from += LANES) lanes += *(const NAME(unaligned) *)(z + from);
        for (; from < end; from++) rest += z[from];
        if (X->intercept) to[d * k + c] += NAME(total)(lanes) + rest;
    }
}

/* Add what a person's records j to end give together to `part`: the sum or mean of z times (x, 1),
   scaled to norm at most `clip`, nothing if it is not finite. With `norms` of the records it is
   scaled by the larger norm that bounds it for either label. */
WITH_32 static void NAME(person)(const struct records *X, ptrdiff_t j, ptrdiff_t end,
                                   const REAL *z, const REAL *limits, const REAL *norms, REAL clip,
                                   int mean, NAME(unaligned) *part, void *space)
{
    const REAL eps = (REAL)(1.0 / ((int64_t)1 << MANTISSA)), n = end - j;
    const REAL tiny = sizeof(REAL) == 4 ? (REAL)FLT_MIN : (REAL)DBL_MIN;
    const ptrdiff_t d = X->d, wide = (d + LANES - 1) / LANES, size = d + X->intercept;
    const __m256i left = NAME(tail)(d);
    NAME(vector) *v = SUM_OF(space, d), squares = {0};
    REAL rest = 0, bound = 0;
    memset(v, 0, wide * sizeof(*v));
    for (ptrdiff_t q = j; q < end; q++) {
        const REAL own = z[q] < 0 ? -z[q] : z[q], other = 1 - own;
        rest += z[q];
        if (norms && limits[q] == limits[q]) bound += norms[q] * (own > other ? own : other);
    }
    for (; j + 8 <= end; j += 8) NAME(gather)(X, j, z, space, left, 8);
    if (end - j >= 4) NAME(gather)(X, j, z, space, left, 4), j += 4;
    if (end - j >= 2) NAME(gather)(X, j, z, space, left, 2), j += 2;
    if (end > j) NAME(gather)(X, j, z, space, left, 1);
    for (ptrdiff_t i = 0; i < wide; i++) squares += v[i] * v[i];
    const REAL square = NAME(total)(squares) + (X->intercept ? rest * rest : 0) + 2 * size * tiny;
    if (!(square - square == 0)) return;
    REAL factor = clip / ((REAL)sqrt((double)square) * (1 + (size + 16) * eps));
    if (bound > 0 && clip / bound < factor) factor = clip / bound;
    if (mean && 1 / n < factor) factor = 1 / n;
    if (!mean && factor > 1) factor = 1;
    if (!(factor >= tiny)) return;
    for (ptrdiff_t i = 0; i < wide; i++) part[i] += v[i] * factor;
    if (X->intercept) ((REAL *)part)[wide * LANES] += rest * factor;
}

/* Each silo's sums over persons, at most `chunk` at a time; blocks of records are in the cache. */
static void NAME(persons)(const struct call *call, const struct slopes *of,
                          const struct persons *persons, const Py_buffer *params,
                          const Py_buffer *out, void *space, void *more)
{
    REAL *z = more, *part = z + (call->n / LANES + 1) * LANES;
    const int64_t *edges = persons->edges;
    const ptrdiff_t d = call->X.d, last = (d + LANES - 1) / LANES * LANES;
    for (ptrdiff_t s = 0, p = 0, held = 0; s < call->silos; s++) {
        const struct records X = silo(call, s);
        REAL *to = ROW_OF(out, s);
        memset(to, 0, (d + X.intercept) * sizeof(REAL));
        memset(part, 0, (last + 1) * sizeof(REAL));
        NAME(pack)(ROW_OF(params, s), d, 1, space);
        while (edges[p] < call->edges[s + 1]) {
            const int64_t from = edges[p];
            ptrdiff_t end = p + 1;
            while (edges[end] < call->edges[s + 1] && edges[end + 1] - from <= 256) end++;
            const REAL *limits = (const REAL *)of->limits + from;
            const REAL *norms = persons->norms ? (const REAL *)persons->norms + from : NULL;
            struct records block = X;
            block.rows = call->X.rows + from;
            block.n = edges[end] - from;
            NAME(found)(&block, ROW_OF(params, s), of, from, z, space);
            for (; p < end; p++) {
                NAME(person)(&block, edges[p] - from, edges[p + 1] - from, z, limits, norms,
                             ((const REAL *)persons->clip)[s], persons->mean, (void *)part, space);
                if (++held % call->chunk && edges[p + 1] < call->edges[s + 1]) continue;
                held = 0;
                for (ptrdiff_t i = 0; i < d; i++) to[i] += part[i];
                if (X.intercept) to[d] += part[last];
                memset(part, 0, (last + 1) * sizeof(REAL));
            }
        }
    }
}

/* One step on a sum: v = momentum v + sum / divisor + penalty at + correction, moved -= rate v. */
ROUNDED __attribute__((noinline)) static void
NAME(move)(const struct descent *by, ptrdiff_t s, ptrdiff_t size, const REAL *at, REAL *sum,
           REAL *restrict velocity, REAL *restrict moved)
{
    const REAL *penalty = by->penalty;
    const REAL *correction = by->correction ? ROW_OF(by->correction, s) : NULL;
    const REAL divisor = ((const REAL *)by->divisor)[s], rate = by->rate, momentum = by->momentum;
    for (ptrdiff_t i = 0; i < size; i++) sum[i] /= divisor;
    for (ptrdiff_t i = 0; penalty && i < size; i++) sum[i] += penalty[i] * at[i];
    for (ptrdiff_t i = 0; correction && i < size; i++) sum[i] += correction[i];
    for (ptrdiff_t i = 0; momentum != 0 && i < size; i++)
        velocity[i] = sum[i] = momentum * velocity[i] + sum[i];
    for (ptrdiff_t i = 0; i < size; i++) moved[i] -= rate * sum[i];
}

/* Each silo's sums, or how far steps lead; `z` has room for slopes and three sums. */
static void NAME(steps)(const struct call *call, const struct slopes *of, const struct descent *by,
                        const Py_buffer *params, const Py_buffer *out, void *space, void *more)
{
    const ptrdiff_t size = call->X.d + call->X.intercept, every = by ? by->steps : 1;
    REAL *z = more, *at = z + (call->n / LANES + 2) * LANES;
    REAL *sum = at + size, *velocity = sum + size;
    for (ptrdiff_t s = 0; s < call->silos; s++) {
        const REAL *from = ROW_OF(params, s);
        REAL *to = ROW_OF(out, s);
        const struct records X = silo(call, s);
        const ptrdiff_t end = call->edges[s + 1], later = end + X.n < call->n ? end + X.n : call->n;
        memset(to, 0, size * sizeof(REAL));
        memset(velocity, 0, size * sizeof(REAL));
        for (ptrdiff_t t = 0; t < every; t++) {
            for (ptrdiff_t j = end + t; j < later && (j - end) * X.stride < AHEAD; j += every)
                fetch(&call->X, j);
            for (ptrdiff_t i = 0; by && i < size; i++) at[i] = from[i] + to[i];
            NAME(sum)(&X, by ? at : from, 1, of, call->edges[s], z, 0, call->chunk, by ? sum : to,
                      space);
            if (by) NAME(move)(by, s, size, at, sum, velocity, to);
        }
    }
}

#undef REAL
#undef INTEGER
#undef MASKED
#undef CUT
