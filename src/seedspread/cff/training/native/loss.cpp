// The supervised contrastive loss of a batch and its gradient, as ../../loss.py defines them.
//
// Rows are sorted by label, so that an anchor's positives are adjacent. A first pass computes each anchor's
// denominator, a second turns recomputed similarities into derivatives through both orders of a pair. Each tile
// of anchors is computed by one thread from beginning to end: the bits do not depend on the number of threads.

#include "products.h"

#include <cstdint>
#include <mutex>
#include <numeric>

using namespace seedspread;

namespace {

constexpr Index TILE = 2 * ROWS;  // anchors at a time
constexpr Index DEPTH = 64;       // numbers that are summed one by one
constexpr Index BINS = 2000;      // bins of similarity, over [-1, 1]
constexpr float SELF = -1e30f;    // the logit of an anchor with itself: its exponential is 0

// As in ../../margins.py, numbered as NATIVE_MARGINS in ../../implementations.py.
enum Kind : Index { NONE = 0, CLAMP = 1, SOFT_CLAMP = 2, SHIFT = 3 };

struct Spec {
    Index n, dim, kind, direct, summed;
    float margin, sharpness, temperature;
};

struct Moved {
    float similarity, slope;
};

Moved moved(const Spec& spec, float s) {
    float m = spec.margin;
    if (spec.kind == CLAMP && m > 0) return {std::min(s + m, 1.0f), s + m <= 1 ? 1.0f : 0.0f};
    if (spec.kind == SHIFT) return {s + m, 1.0f};
    if (spec.kind == SOFT_CLAMP) {
        float x = spec.sharpness * (1 - m - s), e = std::exp(-std::abs(x));
        float softplus = std::max(x, 0.0f) + std::log1p(e);
        return {1 - softplus / spec.sharpness, (x >= 0 ? 1.0f : e) / (1 + e)};
    }
    return {s, 1.0f};
}

// The batch in the order of its labels.
struct Batch {
    Index n, dim, columns;                // columns: n, padded to whole vectors
    std::vector<Index> order, first, end;  // of anchor u: its row in the batch; its class is in [first, end)
    std::vector<float> z, length;         // (n, d) unit vectors, and their lengths before scaling
    Packed turned;                        // (d, n)
    Index anchors = 0;                    // number of anchors that have a positive

    Batch(const Spec& spec, const float* features, const std::int64_t* labels)
        : n(spec.n), dim(spec.dim), columns(round_up(n, WIDTH)), order(n), first(n), end(n), z(n * dim + PANEL),
          length(n) {
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return labels[a] < labels[b]; });
        for (Index u = 0; u < n; u++) {
            unit_vector(features + order[u] * dim, u);
            first[u] = u > 0 && labels[order[u]] == labels[order[u - 1]] ? first[u - 1] : u;
        }
        for (Index u = n - 1; u >= 0; u--) {
            end[u] = u + 1 < n && first[u + 1] == first[u] ? end[u + 1] : u + 1;
            anchors += positives(u) > 0;
        }
        turned = {z.data(), dim, n, 1, dim};
    }

    Index positives(Index u) const { return end[u] - first[u] - 1; }

    // Divided by the largest entry first, so that squares neither overflow nor vanish; a zero row stays zero.
    void unit_vector(const float* row, Index u) {
        float largest = 0;
        for (Index j = 0; j < dim; j++) largest = std::max(largest, std::abs(row[j]));
        float by = largest == 0 ? 1 : largest, squares = 0;
        for (Index j = 0; j < dim; j++) squares += row[j] / by * (row[j] / by);
        float root = std::sqrt(squares);
        length[u] = root * by;
        for (Index j = 0; j < dim; j++) z[u * dim + j] = row[j] / by / std::max(root, 1e-12f);
    }
};

// Results of the first pass for each anchor.
struct Anchors {
    std::vector<float> top, scale, pull, loss;  // its largest logit; w / sum exp(logit - top); w / |P|
    std::vector<float> residual;                // of w (1 - sum p), in direct mode, and the index that gets it
    std::vector<Index> top_at;

    explicit Anchors(Index columns)
        : top(columns), scale(columns), pull(columns), loss(columns), residual(columns), top_at(columns, -1) {}
};

struct Counts {
    std::int64_t saturated = 0;
    std::vector<std::int64_t> histogram = std::vector<std::int64_t>(BINS);

    void add(const Spec& spec, float s) {
        if (std::isnan(s)) return;
        s = std::min(s, 1.0f);  // rounding can exceed 1
        saturated += s + spec.margin > 1;
        Index bin = Index((s + 1) * (BINS / 2));
        histogram[std::clamp<Index>(bin, 0, BINS - 1)]++;
    }
};

// Similarities of some anchors with all, (rows, columns).
void similarities(const Batch& batch, Index begin, Index rows, float* s) {
    product(rows, batch.n, batch.dim, {&batch.z[begin * batch.dim], batch.dim, 1}, batch.turned.right(), {},
            {s, batch.columns});
}

// A row of similarities -> logits, relative to the largest possible one, which keeps the digits of logits near it;
// slopes of its positives, from batch.first[u] on, unless null.
void to_logits(const Spec& spec, const Batch& batch, Index u, float* s, float* slopes) {
    for (Index v = batch.first[u]; v < batch.end[u]; v++) {
        Moved to = moved(spec, s[v]);
        s[v] = to.similarity;
        if (slopes) slopes[v - batch.first[u]] = to.slope;
    }
    for (Index v = batch.n; v < batch.columns; v++) s[v] = SELF;
    float most = spec.kind == SHIFT ? 1 + spec.margin : 1, by = 1 / spec.temperature;
    for (Index v = 0; v < batch.columns; v += WIDTH) store(s + v, (load<Vector>(s + v) - most) * by);
    s[u] = SELF;
}

void first_pass(const Spec& spec, const Batch& batch, Index u, float* s, Anchors& all, Counts& counts) {
    for (Index v = batch.first[u]; v < batch.end[u]; v++)
        if (v != u) counts.add(spec, s[v]);
    to_logits(spec, batch, u, s, nullptr);
    Vector highest = load<Vector>(s), sum{};
    for (Index v = WIDTH; v < batch.columns; v += WIDTH) highest = maximum(highest, load<Vector>(s + v));
    float top = highest[0];
    for (int i = 1; i < WIDTH; i++) top = std::max(top, highest[i]);
    for (Index v = 0; v < batch.columns; v += WIDTH) sum += exponential(load<Vector>(s + v) - top);
    float positives = float(batch.positives(u)), pulled = 0, total = sum_of(sum);
    for (Index v = batch.first[u]; v < batch.end[u]; v++) pulled += v == u ? 0.0f : s[v] - top;
    float weight = positives == 0 ? 0 : spec.summed ? positives : 1;
    all.top[u] = top;
    all.scale[u] = weight / total;
    all.pull[u] = weight / std::max(positives, 1.0f);
    all.loss[u] = weight * (std::log(total) - pulled / std::max(positives, 1.0f));
    if (!spec.direct) return;
    Vector share{};
    for (Index v = 0; v < batch.columns; v += WIDTH) share += exponential(load<Vector>(s + v) - top) * all.scale[u];
    all.residual[u] = weight - sum_of(share);
    all.top_at[u] = std::max_element(s, s + batch.n) - s;
}

// A row of similarities -> derivatives with respect to them, through (u, v) and (v, u), times n tau.
void second_pass(const Spec& spec, const Batch& batch, Index u, float* s, float* slopes, const Anchors& all) {
    to_logits(spec, batch, u, s, slopes);
    for (Index v = 0; v < batch.columns; v += WIDTH) {
        Vector logit = load<Vector>(s + v);
        Vector there = all.scale[u] * exponential(logit - all.top[u]);
        Vector back = load<Vector>(&all.scale[v]) * exponential(logit - load<Vector>(&all.top[v]));
        store(s + v, there + back);
    }
    if (spec.direct)
        for (Index v = 0; v < batch.n; v++)
            s[v] += (all.top_at[u] == v ? all.residual[u] : 0.0f) + (all.top_at[v] == u ? all.residual[v] : 0.0f);
    for (Index v = batch.first[u]; v < batch.end[u]; v++)
        s[v] = (s[v] - all.pull[u] - all.pull[v]) * slopes[v - batch.first[u]];
    s[u] = 0;
}

// From the derivative with respect to the unit vector to that with respect to the row; 0 for a zero row.
void through_norm(const Batch& batch, Index u, const float* grad, float* out) {
    const float* z = &batch.z[u * batch.dim];
    float along = 0, by = batch.length[u] == 0 ? 0 : 1 / batch.length[u];
    for (Index j = 0; j < batch.dim; j++) along += z[j] * grad[j];
    for (Index j = 0; j < batch.dim; j++) out[j] = (grad[j] - z[j] * along) * by;
}

// act(begin, rows, scratch) for every tile of anchors.
template <class Act>
void each_tile(const Batch& batch, int threads, Act act) {
    Index tiles = (batch.n + TILE - 1) / TILE;
    in_parallel(threads, tiles, [&](auto next) {
        std::vector<float> s(TILE * batch.columns + PANEL);
        for (Index tile = next(); tile < tiles; tile = next())
            act(tile * TILE, std::min(TILE, batch.n - tile * TILE), s.data());
    });
}

}  // namespace

extern "C" {

// features (n, d), labels (n) -> the loss, its gradient (n, d) unless null, the number of ordered positive pairs with
// s + m > 1, and the histogram of all of them by similarity (2000). If no anchor has a positive, the loss is NaN.
// Returns 0, or 1 if memory ran out.
int seedspread_loss(const Spec* spec, const float* features, const std::int64_t* labels, float* loss,
                    float* gradient, std::int64_t* saturated, std::int64_t* histogram, int threads) try {
    const Batch batch(*spec, features, labels);
    Anchors all(batch.columns);
    Counts counts;
    std::mutex counting;
    each_tile(batch, threads, [&](Index begin, Index rows, float* s) {
        Counts own;
        similarities(batch, begin, rows, s);
        for (Index i = 0; i < rows; i++) first_pass(*spec, batch, begin + i, s + i * batch.columns, all, own);
        std::lock_guard hold(counting);
        counts.saturated += own.saturated;
        for (Index bin = 0; bin < BINS; bin++) counts.histogram[bin] += own.histogram[bin];
    });
    *loss = float(std::accumulate(all.loss.begin(), all.loss.end(), 0.0) / batch.anchors);
    *saturated = counts.saturated;
    std::copy(counts.histogram.begin(), counts.histogram.end(), histogram);
    if (!gradient) return 0;
    each_tile(batch, threads, [&](Index begin, Index rows, float* s) {
        std::vector<float> slopes(batch.n), grad(rows * batch.dim);
        similarities(batch, begin, rows, s);
        for (Index i = 0; i < rows; i++)
            second_pass(*spec, batch, begin + i, s + i * batch.columns, slopes.data(), all);
        for (Index v = 0; v < batch.n; v += DEPTH)  // in parts: rounding does not grow with their number
            product(rows, batch.dim, std::min(DEPTH, batch.n - v), {s + v, batch.columns, 1},
                    plain(&batch.z[v * batch.dim], batch.dim), {grad.data(), batch.dim}, {grad.data(), batch.dim});
        for (float& one : grad) one /= batch.anchors * spec->temperature;
        for (Index i = 0; i < rows; i++)
            through_norm(batch, begin + i, &grad[i * batch.dim], gradient + batch.order[begin + i] * batch.dim);
    });
    return 0;
} catch (const std::exception&) {
    return 1;
}

}  // extern "C"
