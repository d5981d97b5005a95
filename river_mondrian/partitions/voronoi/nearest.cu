// Kernels that find the cells of rows in Voronoi partitions. All centres are points of one pool.
//
// `cuda.py` launches the four kernels in the order of this file. `nearest.py` proves that the cells
// equal the cells of the reference (`distances.py`, the first point among equals).
//
//   measure_rows  largest errors of each row's scores
//   scan_tiles    scores by a matrix product in tiles; each partition's least score, found while
//                 the scores are in shared memory, for each of several splits of the tiles
//   decide        cells by the splits' least scores; pairs of a row and a partition are deferred if
//                 more than one point may be the nearest
//   settle        the deferred pairs, by distances in the reference's order of summation
//
// The score of a row x and a point p is |k|^2 - 2 c . k, where c and k are x and p minus the
// origin. The score is the squared distance without |c|^2, which all points share.
//
// Arrays: each row and point has `width` floats, a multiple of 8, padded with zeros. `starts` and
// `owners` list the partitions that have the points of a tile as centres (`cuda.owners_by_tile`).
// `members` has the centres of each partition. `minima` has a minimum for each split, partition and
// row. `cells` has a column for each row and partition.

const int THREADS = 256;
const int WARP = 32;
const int WARPS = THREADS / WARP;
const unsigned FULL_WARP = 0xffffffffu;

// Rows and points of a tile, and features of a step of the product.
const int ROWS = 64;
const int POINTS = 128;
const int DEPTH = 16;
const int QUADS = DEPTH / 4;

// Rows and points of a thread's part of a tile's product.
const int OWN_ROWS = 4;
const int OWN_POINTS = 8;
// Rows of a tile for each lane in the search for minima.
const int LANE_ROWS = ROWS / WARP;

// Floats from one feature to the next. With the four additional floats, the quads of a warp are in
// two groups of banks, not in one. This prevents bank conflicts of writes. Reads of four floats
// stay aligned.
const int ROW_STRIDE = ROWS + 4;
const int POINT_STRIDE = POINTS + 4;

// Number of partial sums of a distance.
const int LANES = 8;

// Column of a missing minimum. Flag of a minimum if another point may be as near.
const unsigned NO_COLUMN = 0x7fffffffu;
const unsigned CONTESTED = 0x80000000u;

// Squared norms up to FARTHEST_SQUARE have scores in single precision. Scores of whole numbers are
// exact up to LARGEST_WHOLE_SQUARE (`nearest`).
const double FARTHEST_SQUARE = 1e30;
const double LARGEST_WHOLE_SQUARE = 4194304.0;

// Bounds for a row's scores: the factor of |k|^2 in scores, 1 - g in `nearest`. A point may be the
// nearest if its score is at most factor * least + slack.
struct Bound {
    float share;
    float factor;
    float slack;
};

// A partition's least score for a row, and its column.
struct __align__(8) Minimum {
    float score;
    unsigned column;
};

// A tile's least and second least score among a partition's points. The owner encodes the point
// with the least score: its place in the tile plus `POINTS` times its column.
struct Lowest {
    float score;
    float second;
    unsigned owner;
};

// Data that a thread has fetched for the next step of the product: four features of a row, of two
// points and of the origin. The origin is subtracted later, when the data are placed in shared
// memory. A subtraction at the fetch would wait for the data and delay the products.
struct Fetched {
    float4 row;
    float4 points[2];
    float4 origin;
};

extern __shared__ float4 shared_memory[];

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ float limit_of(float least, float factor, float slack) {
    return __fmaf_rn(factor, least, slack);
}

__device__ __forceinline__ bool comes_before(float score, unsigned column, const Minimum &other) {
    return score < other.score || (score == other.score && column < other.column);
}

// Return the first tile of a split, which is also the end of the split before.
__device__ __forceinline__ int first_tile(int n_tiles, int split, int n_splits) {
    return (int)((long long)n_tiles * split / n_splits);
}

// Write each row's bounds. Each warp computes one row.
extern "C" __global__ void measure_rows(
    const float *__restrict__ rows, int n, int width, const float *__restrict__ origin,
    float error, float least, int whole_pool, int bounded, Bound *__restrict__ bounds) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long row = thread / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= n) return;
    const float *x = rows + row * width;
    double square = 0.0;
    int whole = whole_pool;
    for (int j = lane; j < width; j += WARP) {
        const float c = x[j] - origin[j];
        square += (double)c * (double)c;
        whole &= x[j] == truncf(x[j]);
    }
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        square += __shfl_xor_sync(FULL_WARP, square, offset);
        whole &= __shfl_xor_sync(FULL_WARP, whole, offset);
    }
    if (lane != 0) return;
    Bound bound = {1.0f, 1.0f, infinity()};
    if (bounded && square <= FARTHEST_SQUARE) {
        if (whole && square <= LARGEST_WHOLE_SQUARE) {
            // Scores are whole numbers and exact, so no pair is undecided: no score is less than
            // the least score, and among equals the column decides.
            bound.slack = -1.0f;
        } else {
            bound.share = 1.0f - error;
            bound.factor = 1.0f + 7.0f * error;
            bound.slack = (float)(15.0 * error * square + 4.0 * (double)least);
        }
    }
    bounds[row] = bound;
}

// Fetch a thread's data for a step, with zeros after the last feature. Four threads fetch 64 bytes
// of one row or point, so that they read whole sectors.
__device__ __forceinline__ Fetched fetch(
    const float *row, const float *const (&points)[2], const float *__restrict__ origin,
    int feature, int width) {
    Fetched next = {};
    feature += 4 * (threadIdx.x % QUADS);
    if (feature >= width) return next;
    next.row = *(const float4 *)(row + feature);
    next.points[0] = *(const float4 *)(points[0] + feature);
    next.points[1] = *(const float4 *)(points[1] + feature);
    next.origin = *(const float4 *)(origin + feature);
    return next;
}

// Return a row of a table, or the last row if `row` is too large. A tile may thus repeat the last
// row or point. The repeated scores are not read.
__device__ __forceinline__ const float *row_of(
    const float *__restrict__ table, long long row, int n, int width) {
    return table + (row < n ? row : n - 1) * width;
}

__device__ __forceinline__ const float *point_of(
    const float *__restrict__ points, int tile, int place, int half, int n_points, int width) {
    const long long point = (long long)tile * POINTS + place + half * (POINTS / 2);
    return row_of(points, point, n_points, width);
}

__device__ __forceinline__ void place_quad(
    float *tile, int stride, int place, float4 quad, float4 origin) {
    float *start = tile + 4 * (threadIdx.x % QUADS) * stride + place;
    start[0] = quad.x - origin.x;
    start[stride] = quad.y - origin.y;
    start[2 * stride] = quad.z - origin.z;
    start[3 * stride] = quad.w - origin.w;
}

// Add a step's products to a thread's sums. The thread's rows and points are contiguous in both
// tiles.
__device__ __forceinline__ void multiply(
    const float *row_tile, const float *point_tile, int own_row, int own_point,
    float (&sums)[OWN_POINTS][OWN_ROWS]) {
#pragma unroll
    for (int feature = 0; feature < DEPTH; ++feature) {
        const float4 row = *(const float4 *)(row_tile + feature * ROW_STRIDE + own_row);
        const float *start = point_tile + feature * POINT_STRIDE + own_point;
        const float4 low = *(const float4 *)start, high = *(const float4 *)(start + 4);
        const float c[OWN_ROWS] = {row.x, row.y, row.z, row.w};
        const float k[OWN_POINTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < OWN_POINTS; ++i)
#pragma unroll
            for (int r = 0; r < OWN_ROWS; ++r) sums[i][r] = __fmaf_rn(c[r], k[i], sums[i][r]);
    }
}

// Write a thread's scores, and clear the sums for the next tile. Rows are contiguous: a quarter of
// a warp writes 128 contiguous bytes, and a warp reads one point's score for 32 rows from all
// banks.
__device__ __forceinline__ void write_scores(
    float *scores, const float *__restrict__ squares, const float (&shares)[OWN_ROWS],
    int own_row, int own_point, float (&sums)[OWN_POINTS][OWN_ROWS]) {
    const float4 *start = (const float4 *)(squares + own_point);
    const float4 low = start[0], high = start[1];
    const float square[OWN_POINTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < OWN_POINTS; ++i) {
        float score[OWN_ROWS];
#pragma unroll
        for (int r = 0; r < OWN_ROWS; ++r) {
            score[r] = __fmaf_rn(-2.0f, sums[i][r], __fmul_rn(shares[r], square[i]));
            sums[i][r] = 0.0f;
        }
        *(float4 *)(scores + (own_point + i) * ROWS + own_row) =
            make_float4(score[0], score[1], score[2], score[3]);
    }
}

__device__ __forceinline__ void take(Lowest &lowest, float score, unsigned owner) {
    lowest.second = fminf(lowest.second, fmaxf(lowest.score, score));
    lowest.owner = score < lowest.score ? owner : lowest.owner;
    lowest.score = fminf(lowest.score, score);
}

// Add a tile's lowest score to a minimum. The minimum is contested if another score is within the
// limit. The limit grows with the least score. So a score beyond an earlier limit is also beyond
// the present limit. A contested minimum beyond the present limit is no longer contested.
__device__ __forceinline__ void merge(
    Minimum &minimum, const Lowest &lowest, float factor, float slack) {
    const bool less = lowest.score < minimum.score;
    const float limit = limit_of(fminf(lowest.score, minimum.score), factor, slack);
    const float other = fmaxf(lowest.score, minimum.score);
    const bool own = less ? !(lowest.second > limit) : (minimum.column & CONTESTED) != 0;
    // The comparison is negated, so that NaN is within any limit.
    const bool contested = own || !(other > limit);
    const unsigned column = lowest.owner / POINTS, former = minimum.column & ~CONTESTED;
    const bool first = less || (lowest.score == minimum.score && column < former);
    minimum.score = fminf(lowest.score, minimum.score);
    minimum.column = (first ? column : former) | (contested ? CONTESTED : 0u);
}

// Add a tile's scores to the minima. A warp always has the same partitions, and no other warp reads
// the minima of these partitions. Each lane has its own rows.
__device__ __forceinline__ void take_minima(
    const float *scores, const int *__restrict__ starts, const unsigned *__restrict__ owners,
    int n_partitions, const float (&factors)[LANE_ROWS], const float (&slacks)[LANE_ROWS],
    Minimum *least) {
    const int lane = threadIdx.x % WARP;
    for (int q = threadIdx.x / WARP; q < n_partitions; q += WARPS) {
        int entry = starts[q];
        const int stop = starts[q + 1];
        if (entry == stop) continue;
        const Lowest none = {infinity(), infinity(), owners[entry]};
        Lowest lowest[LANE_ROWS] = {none, none};
#pragma unroll 4
        for (; entry < stop; ++entry) {
            const unsigned owner = owners[entry];
            const float *score = scores + (owner % POINTS) * ROWS + lane;
            for (int h = 0; h < LANE_ROWS; ++h) take(lowest[h], score[WARP * h], owner);
        }
        for (int h = 0; h < LANE_ROWS; ++h)
            merge(least[q * ROWS + lane + WARP * h], lowest[h], factors[h], slacks[h]);
    }
}

__device__ __forceinline__ void clear_minima(Minimum *least, int n_partitions) {
    const Minimum none = {infinity(), NO_COLUMN};
    for (int q = threadIdx.x / WARP; q < n_partitions; q += WARPS)
        for (int h = 0; h < LANE_ROWS; ++h)
            least[q * ROWS + threadIdx.x % WARP + WARP * h] = none;
}

__device__ __forceinline__ void write_minima(
    const Minimum *least, int n_partitions, long long first_row, int n,
    Minimum *__restrict__ minima) {
    for (int q = threadIdx.x / WARP; q < n_partitions; q += WARPS)
        for (int h = 0; h < LANE_ROWS; ++h) {
            const int own = threadIdx.x % WARP + WARP * h;
            if (first_row + own < n)
                minima[((long long)blockIdx.y * n_partitions + q) * n + first_row + own] =
                    least[q * ROWS + own];
        }
}

// A block multiplies `ROWS` rows (x) with all tiles of a split (y).
//
// At the end of a step, the operands of the next step are being loaded into registers while sums
// and minima are computed. Two barriers are sufficient. After the first barrier, all operands are
// placed, and no thread still reads the earlier tile's scores. After the second barrier, no thread
// still reads the operands, and all scores are written.
extern "C" __global__ void __launch_bounds__(THREADS, 2) scan_tiles(
    const float *__restrict__ rows, const Bound *__restrict__ bounds, int n,
    const float *__restrict__ points, const float *__restrict__ squares, int n_points,
    const float *__restrict__ origin, int width, const int *__restrict__ starts,
    const unsigned *__restrict__ owners, int n_partitions, Minimum *__restrict__ minima) {
    float *scores = (float *)shared_memory;
    float *row_tile = scores + POINTS * ROWS;
    float *point_tile = row_tile + DEPTH * ROW_STRIDE;
    Minimum *least = (Minimum *)(point_tile + DEPTH * POINT_STRIDE);

    const int place = threadIdx.x / QUADS;
    const int own_row = OWN_ROWS * (threadIdx.x % (ROWS / OWN_ROWS));
    const int own_point = OWN_POINTS * (threadIdx.x / (ROWS / OWN_ROWS));
    const long long first_row = (long long)blockIdx.x * ROWS;
    const int n_tiles = (n_points + POINTS - 1) / POINTS;
    const int last = first_tile(n_tiles, blockIdx.y + 1, gridDim.y);
    int tile = first_tile(n_tiles, blockIdx.y, gridDim.y), feature = 0;

    float shares[OWN_ROWS], factors[LANE_ROWS], slacks[LANE_ROWS];
    for (int r = 0; r < OWN_ROWS; ++r)
        shares[r] = first_row + own_row + r < n ? bounds[first_row + own_row + r].share : 0.0f;
    for (int h = 0; h < LANE_ROWS; ++h) {
        const long long row = first_row + threadIdx.x % WARP + WARP * h;
        factors[h] = row < n ? bounds[row].factor : 0.0f;
        slacks[h] = row < n ? bounds[row].slack : 0.0f;
    }
    clear_minima(least, n_partitions);
    const float *const row = row_of(rows, first_row + place, n, width);
    const float *tile_points[2];
    for (int half = 0; half < 2; ++half)
        tile_points[half] = point_of(points, tile, place, half, n_points, width);
    Fetched next = fetch(row, tile_points, origin, feature, width);
    float sums[OWN_POINTS][OWN_ROWS] = {};
    while (tile < last) {
        place_quad(row_tile, ROW_STRIDE, place, next.row, next.origin);
        for (int half = 0; half < 2; ++half)
            place_quad(
                point_tile, POINT_STRIDE, place + half * (POINTS / 2), next.points[half],
                next.origin);
        __syncthreads();
        const int done = tile;
        feature += DEPTH;
        if (feature >= width) {
            feature = 0;
            ++tile;
            for (int half = 0; half < 2; ++half)
                tile_points[half] = point_of(points, tile, place, half, n_points, width);
        }
        // After the last tile, the last point is fetched again and not used.
        next = fetch(row, tile_points, origin, feature, width);
        multiply(row_tile, point_tile, own_row, own_point, sums);
        if (tile > done)
            write_scores(
                scores, squares + (long long)done * POINTS, shares, own_row, own_point, sums);
        __syncthreads();
        if (tile > done)
            take_minima(
                scores, starts + (long long)done * n_partitions, owners, n_partitions, factors,
                slacks, least);
    }
    write_minima(least, n_partitions, first_row, n, minima);
}

// Decide each pair of a partition and a row in one thread. Rows are contiguous as in `minima`.
// Cells are written with contiguous partitions, because the host reads cells in this order.
extern "C" __global__ void decide(
    const Minimum *__restrict__ minima, int n_splits, int n_partitions, int n,
    const Bound *__restrict__ bounds, int n_columns, int first_column, int *__restrict__ cells,
    unsigned *__restrict__ pending, unsigned *__restrict__ n_pending) {
    const long long pair = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long n_pairs = (long long)n_partitions * n;
    if (pair >= n_pairs) return;
    const long long row = pair % n;
    Minimum best = {infinity(), NO_COLUMN};
    int from = -1;
    for (int split = 0; split < n_splits; ++split) {
        const Minimum minimum = minima[split * n_pairs + pair];
        if (!comes_before(minimum.score, minimum.column & ~CONTESTED, best)) continue;
        best.score = minimum.score;
        best.column = minimum.column & ~CONTESTED;
        from = split;
    }
    const float limit = limit_of(best.score, bounds[row].factor, bounds[row].slack);
    bool contested = from < 0;
    for (int split = 0; split < n_splits; ++split) {
        const Minimum minimum = minima[split * n_pairs + pair];
        contested |= split == from ? (minimum.column & CONTESTED) != 0 : !(minimum.score > limit);
    }
    if (contested)
        pending[atomicAdd(n_pending, 1u)] = (unsigned)pair;
    else
        cells[row * n_columns + first_column + pair / n] = (int)best.column;
}

// The squared distance of `distances.squared_distance`, computed by `LANES` neighbouring threads,
// each with one partial sum. Squares of single precision are exact in double precision.
__device__ __forceinline__ double exact_distance(
    const float *__restrict__ x, const float *__restrict__ p, int width, unsigned group) {
    double sum = 0.0;
    for (int j = threadIdx.x % LANES; j < width; j += LANES) {
        const double gap = __fsub_rn(x[j], p[j]);
        sum = __dadd_rn(sum, __dmul_rn(gap, gap));
    }
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        sum = __dadd_rn(sum, __shfl_xor_sync(group, sum, offset));
    return sum;
}

__device__ __forceinline__ void keep_nearer(
    double distance, unsigned column, double &best, unsigned &found) {
    if (!(distance < best || (distance == best && column < found))) return;
    best = distance;
    found = column;
}

// Settle each pending pair in one warp. In a split whose minimum is not contested, only the
// minimum's point may be the nearest. In other splits, any point of the partition in the split's
// tiles may be the nearest.
extern "C" __global__ void settle(
    const Minimum *__restrict__ minima, int n_splits, int n_partitions, int n,
    const Bound *__restrict__ bounds, const float *__restrict__ rows,
    const float *__restrict__ points, int n_points, int width, const int *__restrict__ starts,
    const unsigned *__restrict__ owners, const int *__restrict__ members, int n_cells,
    int n_columns, int first_column, int *__restrict__ cells,
    const unsigned *__restrict__ pending, const unsigned *__restrict__ n_pending) {
    const long long n_pairs = (long long)n_partitions * n;
    const int n_tiles = (n_points + POINTS - 1) / POINTS;
    const int lane = threadIdx.x % WARP, part = lane / LANES, parts = WARP / LANES;
    const unsigned group = 0xffu << (part * LANES);
    const long long n_warps = (long long)gridDim.x * (blockDim.x / WARP);
    long long i = (long long)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    for (; i < *n_pending; i += n_warps) {
        const long long pair = pending[i], row = pair % n, q = pair / n;
        const float *x = rows + row * width;
        float least = infinity();
        for (int split = 0; split < n_splits; ++split)
            least = fminf(least, minima[split * n_pairs + pair].score);
        const float limit = limit_of(least, bounds[row].factor, bounds[row].slack);
        double best = (double)infinity();
        unsigned found = NO_COLUMN;
        for (int split = 0; split < n_splits; ++split) {
            const Minimum minimum = minima[split * n_pairs + pair];
            if (minimum.score > limit || minimum.column == NO_COLUMN) continue;
            if ((minimum.column & CONTESTED) == 0) {
                const long long p = members[q * n_cells + minimum.column];
                const double distance = exact_distance(x, points + p * width, width, group);
                keep_nearer(distance, minimum.column, best, found);
                continue;
            }
            const int last = first_tile(n_tiles, split + 1, n_splits);
            for (int tile = first_tile(n_tiles, split, n_splits) + part; tile < last;
                 tile += parts) {
                const int *ends = starts + (long long)tile * n_partitions + q;
                for (int entry = ends[0]; entry < ends[1]; ++entry) {
                    const unsigned owner = owners[entry];
                    const long long p = (long long)tile * POINTS + owner % POINTS;
                    const double distance = exact_distance(x, points + p * width, width, group);
                    keep_nearer(distance, owner / POINTS, best, found);
                }
            }
        }
        for (int offset = LANES; offset < WARP; offset *= 2) {
            const double distance = __shfl_xor_sync(FULL_WARP, best, offset);
            const unsigned column = __shfl_xor_sync(FULL_WARP, found, offset);
            keep_nearer(distance, column, best, found);
        }
        if (lane == 0) cells[row * n_columns + first_column + q] = (int)found;
    }
}
