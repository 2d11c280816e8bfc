// A layer of the Vision Transformer on a CPU, forward and backward, for training layer by layer.
//
// The functions are those of ../fast.py, which explains how they follow from ../../model.py: layer norms are folded
// into the map behind them, the last map is differentiated on the mean over tokens, and a layer's input gets no
// gradient. The gain is in memory traffic: a few images at a time go through the whole layer and stay in cache,
// nothing is permuted, and attention's P is recomputed in the backward pass.
//
// An image has T tokens of width d; a group of images has N = images * T rows. Images are divided into chunks that
// depend on their number alone; each chunk has its own gradients, which are added in order: the bits do not depend on
// the number of threads.

#include "products.h"

using namespace seedspread;

namespace {

// x Phi(x) and its derivative Phi(x) + x phi(x), by one exponential: Phi(-|x|) is e^(-x^2/2) times a
// polynomial in 1 / (1 + c |x|), fitted to 1e-7 of it.
struct Gelu {
    Vector value, slope;
};

Gelu gelu(Vector x) {
    Vector size = x < 0.0f ? -x : x;
    Vector t = 1.0f / (1.0f + 0.305f * size);
    Vector p = t * 0.0366993336f - 0.15298891f;
    p = p * t + 0.185717927f;
    p = p * t - 0.0379777574f;
    p = p * t + 0.121022155f;
    p = p * t + 0.10342073f;
    p = p * t + 0.122466837f;
    p = p * t + 0.121639732f;
    Vector bell = exponential(-0.5f * (x * x));
    Vector tail = bell * (p * t);
    Vector share = x < 0.0f ? tail : 1.0f - tail;
    return {x * share, share + x * bell * 0.398942280f};
}

struct Shape {
    Index images, tokens, dim, heads, channels, across, patch;  // across: pixels
    Index embeds, bf16;  // whether images come in, and whether products are in bf16

    Index hidden() const { return 2 * dim; }
    Index width() const { return dim / heads; }
    Index pixels() const { return channels * patch * patch; }
    Index input() const { return embeds ? tokens * pixels() : tokens * dim; }
    // Numbers kept of a token's queries, keys and values: words if in bf16, since only products read them.
    Index attended() const { return 3 * (bf16 ? heads * words_of(width()) : dim); }
    Index saved() const { return tokens * (attended() + 4 * dim + 1) + hidden(); }
};

// In the order of a layer's parameters.
template <class Float>
struct Parameters {
    Float *position = nullptr, *patch = nullptr, *patch_bias = nullptr;
    Float *scale1, *shift1, *qkv, *qkv_bias, *proj, *proj_bias, *scale2, *shift2, *up, *up_bias, *down, *down_bias;

    Parameters(Float* const* at, bool embeds) {
        if (embeds) position = *at++, patch = *at++, patch_bias = *at++;
        for (Float** one : {&scale1, &shift1, &qkv, &qkv_bias, &proj, &proj_bias, &scale2, &shift2, &up, &up_bias,
                            &down, &down_bias})
            *one = *at++;
    }
};

// Values of a group's forward pass that its backward pass needs; a part per image of memory that the caller owns.
struct Saved {
    float *qkv, *mixed, *normed, *slope, *deviation, *means;

    Saved(const Shape& s, float* at, Index images) {
        Index rows = images * s.tokens;
        qkv = at;                               // (N, 3d), or (3, heads, N) rows of words
        mixed = qkv + rows * s.attended();      // (N, d), attention's output
        normed = mixed + rows * s.dim;          // (N, d), in front of the perceptron
        slope = normed + rows * s.dim;          // (N, 2d), of GELU
        deviation = slope + rows * s.hidden();  // (N), 1 / standard deviation
        means = deviation + rows;               // (images, 2d), of the perceptron's hidden units
    }
};

// W (g x + b) + c = (W g) x + (W b + c); rows up to `scaled` are scaled as well.
struct Folded {
    std::vector<float> weight, bias;

    Folded(const float* w, const float* c, const float* g, const float* b, Index out, Index in, Index scaled,
           float scale)
        : weight(out * in), bias(out + PANEL) {
        for (Index o = 0; o < out; o++) {
            float by = o < scaled ? scale : 1.0f, shift = c[o];
            for (Index i = 0; i < in; i++) {
                weight[o * in + i] = by * (w[o * in + i] * g[i]);
                shift += w[o * in + i] * b[i];
            }
            bias[o] = by * shift;
        }
    }
};

struct Layer {
    Shape shape;
    Parameters<const float> own;
    Folded qkv, up;
    Packed patch_there, qkv_there, proj_there, up_there, down_there;  // (in, out)
    Packed qkv_back, proj_back, up_back, down_back;                   // (out, in)

    Layer(const Shape& s, const float* const* parameters, bool forward, bool backward)
        : shape(s), own(parameters, s.embeds),
          qkv(own.qkv, own.qkv_bias, own.scale1, own.shift1, 3 * s.dim, s.dim, s.dim,
              1.0f / std::sqrt(float(s.width()))),
          up(own.up, own.up_bias, own.scale2, own.shift2, s.hidden(), s.dim, 0, 1.0f) {
        Index d = s.dim, h = s.hidden();
        auto packed = [&s](const float* at, Index depth, Index columns, Index row, Index column) {
            Packed weight(at, depth, columns, row, column);
            return s.bf16 ? weight.in_bf16() : weight;
        };
        if (s.embeds) patch_there = packed(own.patch, s.pixels(), d, 1, s.pixels());
        if (forward) {
            qkv_there = packed(qkv.weight.data(), d, 3 * d, 1, d);
            proj_there = packed(own.proj, d, d, 1, d);
            up_there = packed(up.weight.data(), d, h, 1, d);
            down_there = packed(own.down, h, d, 1, h);
        }
        if (backward) {
            if (s.embeds) qkv_back = packed(qkv.weight.data(), 3 * d, d, d, 1);
            proj_back = packed(own.proj, d, d, d, 1);
            up_back = packed(up.weight.data(), h, d, d, 1);
            down_back = packed(own.down, d, h, h, 1);
        }
    }
};

// Memory of one thread, for a group of images.
struct Scratch {
    std::vector<float> patches, embedded, tokens, normed, attended, hidden, pooled, deviation;
    std::vector<float> values, turned, along, p, grad_p, wide, thin, grad_tokens;
    std::vector<float> left_words, right_words;  // of a product in bf16
    std::vector<float> saved;
    bool bf16;

    Scratch(const Shape& s, Index images, bool saves) : bf16(s.bf16) {
        Index n = images * s.tokens, length = round_up(s.tokens, WIDTH), w = round_up(s.width(), WIDTH);
        auto make = [](std::vector<float>& one, Index size) { one.resize(size + PANEL); };
        if (s.embeds) make(patches, n * s.pixels()), make(embedded, n * s.dim), make(grad_tokens, n * s.dim);
        for (auto* one : {&tokens, &normed, &attended, &thin}) make(*one, n * s.dim);
        make(hidden, n * s.hidden());
        make(pooled, images * s.hidden());
        make(deviation, n);
        for (auto* one : {&values, &turned}) make(*one, length * w);
        make(along, length);
        for (auto* one : {&p, &grad_p}) make(*one, s.tokens * length);
        make(wide, n * 3 * s.dim);
        if (bf16)
            for (auto* one : {&left_words, &right_words})
                make(*one, (n + 1) * (std::max({3 * s.dim, s.pixels(), length}) + 1) / 2);
        if (saves) make(saved, images * s.saved());
    }
};

// -------------------------------------------------------------------------------------- row by row

template <class F>
float total(Index n, F of) {
    Vector sum{};
    Index j = 0;
    for (; j + WIDTH <= n; j += WIDTH) sum += of([j](const float* at) { return load<Vector>(at + j); });
    float all = sum_of(sum);
    for (; j < n; j++) all += of([j](const float* at) { return at[j]; });
    return all;
}

// (n, dim) -> mean 0 and variance 1; writes 1 / standard deviation to `deviation` unless that is null.
void layer_norm(Index rows, Index dim, const float* x, float* normed, float* deviation) {
    for (Index row = 0; row < rows; row++, x += dim, normed += dim) {
        float mean = total(dim, [&](auto at) { return at(x); }) / dim;
        float variance = total(dim, [&](auto at) { auto c = at(x) - mean; return c * c; }) / dim;
        float scale = 1.0f / std::sqrt(variance + 1e-5f);
        if (deviation) deviation[row] = scale;
        for (Index j = 0; j < dim; j += WIDTH) {
            int lanes = int(dim - j);
            store(normed + j, (load<Vector>(x + j, lanes) - mean) * scale, lanes);
        }
    }
}

// Gradient (n, dim) of the normalized rows -> that of the rows before; adds `more`, (n, dim) or one row per `every`.
void layer_norm_back(Index rows, Index dim, const float* normed, const float* deviation, const float* grad,
                     const float* more, Index every, float* out) {
    for (Index row = 0; row < rows; row++, normed += dim, grad += dim, out += dim) {
        float mean = total(dim, [&](auto at) { return at(grad); }) / dim;
        float along = total(dim, [&](auto at) { return at(grad) * at(normed); }) / dim;
        const float* added = more + row / every * dim;
        for (Index j = 0; j < dim; j += WIDTH) {
            int lanes = int(dim - j);
            Vector own = load<Vector>(grad + j, lanes) - mean - load<Vector>(normed + j, lanes) * along;
            store(out + j, load<Vector>(added + j, lanes) + own * deviation[row], lanes);
        }
    }
}

// Adds up the rows of (n, columns).
void add_rows(Index rows, Index columns, const float* x, float* sum) {
    for (Index j = 0; j < columns; j += WIDTH) {
        int lanes = int(columns - j);
        Vector all{};
        for (Index row = 0; row < rows; row++) all += load<Vector>(x + row * columns + j, lanes);
        store(sum + j, load<Vector>(sum + j, lanes) + all, lanes);
    }
}

// Each column of n rows, `columns` of them, a multiple of a vector.
void softmax(Index n, Index columns, float* s) {
    for (Index j = 0; j < columns; j += WIDTH) {
        Vector top = load<Vector>(s + j), sum{};
        for (Index i = 1; i < n; i++) top = maximum(top, load<Vector>(s + i * columns + j));
        for (Index i = 0; i < n; i++) {
            Vector e = exponential(load<Vector>(s + i * columns + j) - top);
            store(s + i * columns + j, e);
            sum += e;
        }
        Vector share = 1.0f / sum;
        for (Index i = 0; i < n; i++) store(s + i * columns + j, load<Vector>(s + i * columns + j) * share);
    }
}

// (n, columns), `row` apart -> (columns, n), `to_row` apart.
void transpose(Index n, Index columns, const float* from, Index row, float* to, Index to_row) {
    Index i = 0, whole = columns / 4 * 4;
    for (; i + 4 <= n; i += 4)
        for (Index j = 0; j < whole; j += 4) {
            const float* at = from + i * row + j;
            Four a = load<Four>(at), b = load<Four>(at + row), c = load<Four>(at + 2 * row), d = load<Four>(at + 3 * row);
            Four ac0 = shuffled<0, 4, 1, 5>(a, c), ac2 = shuffled<2, 6, 3, 7>(a, c);
            Four bd0 = shuffled<0, 4, 1, 5>(b, d), bd2 = shuffled<2, 6, 3, 7>(b, d);
            float* out = to + j * to_row + i;
            store(out, shuffled<0, 4, 1, 5>(ac0, bd0));
            store(out + to_row, shuffled<2, 6, 3, 7>(ac0, bd0));
            store(out + 2 * to_row, shuffled<0, 4, 1, 5>(ac2, bd2));
            store(out + 3 * to_row, shuffled<2, 6, 3, 7>(ac2, bd2));
        }
    for (Index k = 0; k < n; k++)
        for (Index j = k < i ? whole : 0; j < columns; j++) to[j * to_row + k] = from[k * row + j];
}

void copy(Index n, Index columns, const float* from, Index row, float* to, Index to_row) {
    for (Index i = 0; i < n; i++) std::memcpy(to + i * to_row, from + i * row, columns * sizeof(float));
}

// ------------------------------------------------------------------------------ products of a layer

// The left factor of a product, whose rows or columns lie side by side, in words of bf16.
Left in_words(Index m, Index depth, Left left, float* words) {
    if (left.step == 1) {
        words_along(m, depth, left.at, left.row, words);
        return {words, words_of(depth), 1};
    }
    words_across(depth, m, left.at, left.step, words, m);
    return {words, 1, m};
}

// Multiplies by a weight, which is packed in the layer's format.
void multiply(Index m, Index n, Index depth, Left left, const Packed& weight, Start start, Out out, Scratch& scratch) {
    if (!scratch.bf16) return product(m, n, depth, left, weight.right(), start, out);
    left = in_words(m, depth, left, scratch.left_words.data());
    product_bf16(m, n, words_of(depth), left, weight.right(), start, out);
}

// Multiplies by an unpacked matrix (depth, n), rows `row` apart.
void multiply(Index m, Index n, Index depth, Left left, const float* right, Index row, Start start, Out out,
              Scratch& scratch) {
    if (!scratch.bf16) return product(m, n, depth, left, plain(right, row), start, out);
    left = in_words(m, depth, left, scratch.left_words.data());
    words_across(depth, n, right, row, scratch.right_words.data(), n);
    product_bf16(m, n, words_of(depth), left, plain(scratch.right_words.data(), n), start, out);
}

// The right factors below are queries, keys, values or a gradient of one head: in bf16, words of neighbors in a row.

// Multiplies by a matrix (depth, n) inside a wider one.
void multiply_part(Index m, Index n, Index depth, Left left, const float* right, Index row, Out out, Scratch& scratch) {
    if (scratch.bf16) {
        left = in_words(m, depth, left, scratch.left_words.data());
        words_turned(depth, n, right, row, scratch.right_words.data());
        return product_bf16(m, n, words_of(depth), left, plain(scratch.right_words.data(), n), {}, out);
    }
    Index padded = round_up(n, WIDTH / 2);
    copy(depth, n, right, row, scratch.values.data(), padded);
    product(m, n, depth, left, plain(scratch.values.data(), padded), {}, out);
}

// Multiplies the transpose of a left factor (depth, m) by a thin matrix (depth, n), rows `row` apart. Its rows would
// fill half a vector, so out is computed as its transpose, from the same sums.
void multiply_thin(Index m, Index n, Index depth, const float* left, Index length, const float* right, Index row,
                   Out out, Scratch& scratch) {
    if (scratch.bf16 || n > WIDTH / 2)
        return multiply_part(m, n, depth, {left, 1, length}, right, row, out, scratch);
    product(n, length, depth, {right, 1, row}, plain(left, length), {}, {scratch.values.data(), length});
    transpose(n, m, scratch.values.data(), length, out.at, out.row);
}

// Multiplies (m, depth) by the transpose of (n, depth), rows `row` and `right_row` apart; out has whole vectors.
void multiply_turned(Index m, Index n, Index depth, const float* left, const float* right, Index row, Index right_row,
                     Out out, Scratch& scratch) {
    Index length = round_up(n, WIDTH), numbers = scratch.bf16 ? words_of(depth) : depth;
    float* turned = scratch.turned.data();
    transpose(n, numbers, right, right_row, turned, length);
    (scratch.bf16 ? product_bf16 : product)(m, length, numbers, {left, row, 1}, plain(turned, length), {}, out);
}

// ------------------------------------------------------------------------------------- forward pass

// Images (C, H, W) -> (T, C p p), patches row by row.
void cut(const Shape& s, const float* image, float* patches) {
    Index across = s.across / s.patch, down = s.tokens / across * s.patch;
    for (Index t = 0; t < s.tokens; t++)
        for (Index c = 0; c < s.channels; c++)
            for (Index y = 0; y < s.patch; y++, patches += s.patch) {
                Index line = (c * down + t / across * s.patch + y) * s.across + t % across * s.patch;
                std::memcpy(patches, image + line, s.patch * sizeof(float));
            }
}

// Images -> tokens = relu(embedded) + position; both kept in `scratch`.
void embed(const Layer& layer, const float* images, Index count, Scratch& scratch) {
    const Shape& s = layer.shape;
    Index n = count * s.tokens, pixels = s.pixels(), size = s.tokens * s.dim;
    for (Index i = 0; i < count; i++) cut(s, images + i * s.input(), &scratch.patches[i * s.tokens * pixels]);
    multiply(n, s.dim, pixels, {scratch.patches.data(), pixels, 1}, layer.patch_there,
             {nullptr, 0, layer.own.patch_bias}, {scratch.embedded.data(), s.dim}, scratch);
    for (Index i = 0; i < count; i++)
        for (Index j = 0; j < size; j++)
            scratch.tokens[i * size + j] = std::max(scratch.embedded[i * size + j], 0.0f) + layer.own.position[j];
}

// One head's queries, keys and values (T, w) of one image, rows `row` apart.
struct Head {
    const float *q, *k, *v;
    Index row;

    Head(const Shape& s, const float* qkv, Index images, Index image, Index h) {
        Index words = words_of(s.width()), n = images * s.tokens, part = s.bf16 ? s.heads * n * words : s.dim;
        row = s.bf16 ? words : 3 * s.dim;
        q = qkv + (s.bf16 ? h * n * words : h * s.width()) + image * s.tokens * row;
        k = q + part, v = k + part;
    }
};

// P^T (keys, queries).
void attend(const Shape& s, const Head& head, Scratch& scratch) {
    Index length = round_up(s.tokens, WIDTH);
    multiply_turned(s.tokens, s.tokens, s.width(), head.k, head.q, head.row, head.row, {scratch.p.data(), length},
                    scratch);
    softmax(s.tokens, length, scratch.p.data());
}

// Attention of a group of images: mixed (N, d).
void attention(const Shape& s, const float* qkv, Index images, float* mixed, Scratch& scratch) {
    Index w = s.width(), length = round_up(s.tokens, WIDTH);
    for (Index i = 0; i < images; i++, mixed += s.tokens * s.dim)
        for (Index h = 0; h < s.heads; h++) {
            Head head(s, qkv, images, i, h);
            attend(s, head, scratch);
            multiply_thin(s.tokens, w, s.tokens, scratch.p.data(), length, head.v, head.row, {mixed + h * w, s.dim},
                          scratch);
        }
}

// GELU of (images * T, 2d) in place; saves its slopes, and its means over tokens.
void activate(const Shape& s, Index images, float* hidden, const Saved& saved) {
    Index columns = s.hidden(), size = s.tokens * columns;
    float share = 1.0f / s.tokens;
    for (Index i = 0; i < images; i++)
        for (Index j = 0; j < columns; j += WIDTH) {
            int lanes = int(columns - j);
            Vector sum{};
            for (Index at = i * size + j; at < (i + 1) * size; at += columns) {
                Gelu g = gelu(load<Vector>(hidden + at, lanes));
                store(hidden + at, g.value, lanes);
                store(saved.slope + at, g.slope, lanes);
                sum += g.value;
            }
            store(saved.means + i * columns + j, sum * share, lanes);
        }
}

// A group of images or tokens -> pooled (images, d) and, unless null, tokens (N, d).
void forward(const Layer& layer, const float* input, Index images, const Saved& saved, Scratch& scratch,
             float* pooled, float* output) {
    const Shape& s = layer.shape;
    Index n = images * s.tokens, d = s.dim, h = s.hidden();
    float *normed = scratch.normed.data(), *attended = scratch.attended.data(), *hidden = scratch.hidden.data();
    if (s.embeds) embed(layer, input, images, scratch);
    const float* x = s.embeds ? scratch.tokens.data() : input;
    layer_norm(n, d, x, normed, nullptr);
    float* qkv = s.bf16 ? scratch.wide.data() : saved.qkv;
    multiply(n, 3 * d, d, {normed, d, 1}, layer.qkv_there, {nullptr, 0, layer.qkv.bias.data()}, {qkv, 3 * d}, scratch);
    for (Index part = 0; s.bf16 && part < 3 * s.heads; part++)
        words_along(n, s.width(), qkv + part * s.width(), 3 * d, saved.qkv + part * n * words_of(s.width()));
    attention(s, saved.qkv, images, saved.mixed, scratch);
    multiply(n, d, d, {saved.mixed, d, 1}, layer.proj_there, {x, d, layer.own.proj_bias}, {attended, d}, scratch);
    layer_norm(n, d, attended, saved.normed, saved.deviation);
    multiply(n, h, d, {saved.normed, d, 1}, layer.up_there, {nullptr, 0, layer.up.bias.data()}, {hidden, h}, scratch);
    activate(s, images, hidden, saved);
    float* mean = scratch.pooled.data();
    std::fill(mean, mean + images * d, 0.0f);
    for (Index i = 0; i < images; i++) add_rows(s.tokens, d, attended + i * s.tokens * d, mean + i * d);
    for (Index j = 0; j < images * d; j++) mean[j] *= 1.0f / s.tokens;
    multiply(images, d, h, {saved.means, h, 1}, layer.down_there, {mean, d, layer.own.down_bias}, {pooled, d}, scratch);
    if (output)
        multiply(n, d, h, {hidden, h, 1}, layer.down_there, {attended, d, layer.own.down_bias}, {output, d}, scratch);
}

// ------------------------------------------------------------------------------------ backward pass

// Gradients of the folded weights, (in, out) each, in one piece of memory.
struct Gradients {
    float *qkv, *qkv_bias, *proj, *proj_bias, *up, *up_bias, *down, *down_bias;
    float *position = nullptr, *patch = nullptr, *patch_bias = nullptr;

    static Index size(const Shape& s) {
        Index block = s.dim * (8 * s.dim + 7), embedding = s.dim * (s.tokens + s.pixels() + 1);
        return block + (s.embeds ? embedding : 0);
    }
    Gradients(const Shape& s, float* at) {
        Index d = s.dim, h = s.hidden();
        auto take = [&](Index count) { return std::exchange(at, at + count); };
        qkv = take(3 * d * d), qkv_bias = take(3 * d), proj = take(d * d), proj_bias = take(d);
        up = take(d * h), up_bias = take(h), down = take(h * d), down_bias = take(d);
        if (s.embeds) position = take(s.tokens * d), patch = take(s.pixels() * d), patch_bias = take(d);
    }
};

// weight (in, out) += x^T grad and bias += grad, summed over n rows; x (n, in), grad (n, out).
void add_gradient(Index n, Index in, Index out, const float* x, const float* grad, float* weight, float* bias,
                  Scratch& scratch) {
    multiply(in, out, n, {x, 1, in}, grad, out, {weight, out, nullptr}, {weight, out}, scratch);
    add_rows(n, out, grad, bias);
}

// With P the softmax of S = Q K^T and O = P V: dV = P^T dO, and dS = P * (dO V^T - D), D the row sum of dO * O.
void attention_back(const Shape& s, const Head& head, const float* o, const float* grad_o, float* grad_q,
                    Scratch& scratch) {
    Index w = s.width(), length = round_up(s.tokens, WIDTH), n = s.tokens, d = s.dim;
    float *p = scratch.p.data(), *grad_p = scratch.grad_p.data(), *along = scratch.along.data();
    float *grad_k = grad_q + d, *grad_v = grad_k + d;
    const float* factor = grad_o;
    Index row = d;
    if (s.bf16) {
        words_along(n, w, grad_o, d, scratch.values.data());
        factor = scratch.values.data(), row = words_of(w);
    }
    attend(s, head, scratch);
    multiply_part(n, w, n, {p, length, 1}, factor, row, {grad_v, 3 * d}, scratch);
    multiply_turned(n, n, w, head.v, factor, head.row, row, {grad_p, length}, scratch);
    for (Index t = 0; t < n; t++) along[t] = total(w, [&](auto at) { return at(grad_o + t * d) * at(o + t * d); });
    for (Index t = 0; t < n; t++)
        for (Index j = 0; j < length; j += WIDTH) {
            Vector change = load<Vector>(grad_p + t * length + j) - load<Vector>(along + j);
            store(grad_p + t * length + j, change * load<Vector>(p + t * length + j));
        }
    multiply_thin(n, w, n, grad_p, length, head.k, head.row, {grad_q, 3 * d}, scratch);
    multiply_part(n, w, n, {grad_p, length, 1}, head.q, head.row, {grad_k, 3 * d}, scratch);
}

// From the gradient of the tokens (N, d) to those of the embedding; overwrites the former.
void embed_back(const Shape& s, Index images, Scratch& scratch, Gradients& sums) {
    Index n = images * s.tokens, size = s.tokens * s.dim;
    float* grad = scratch.grad_tokens.data();
    for (Index i = 0; i < images; i++)
        for (Index j = 0; j < size; j++) sums.position[j] += grad[i * size + j];
    for (Index j = 0; j < n * s.dim; j++) grad[j] = scratch.embedded[j] > 0.0f ? grad[j] : 0.0f;
    add_gradient(n, s.pixels(), s.dim, scratch.patches.data(), grad, sums.patch, sums.patch_bias, scratch);
}

// A group's gradients, given that of its pooled features (images, d).
void backward(const Layer& layer, const float* input, Index images, const Saved& saved, const float* grad_pooled,
              Scratch& scratch, Gradients& sums) {
    const Shape& s = layer.shape;
    Index n = images * s.tokens, d = s.dim, h = s.hidden(), t = s.tokens;
    float *hidden = scratch.hidden.data(), *thin = scratch.thin.data(), *wide = scratch.wide.data();
    float *attended = scratch.attended.data(), *means = scratch.pooled.data();
    std::vector<float> share(images * d + PANEL);
    std::copy_n(grad_pooled, images * d, share.data());
    add_gradient(images, h, d, saved.means, share.data(), sums.down, sums.down_bias, scratch);
    for (float& one : share) one /= t;  // the mean over tokens gives each the same
    multiply(images, h, d, {share.data(), d, 1}, layer.down_back, {}, {means, h}, scratch);
    for (Index row = 0; row < n; row++)
        for (Index j = 0; j < h; j++) hidden[row * h + j] = saved.slope[row * h + j] * means[row / t * h + j];
    add_gradient(n, d, h, saved.normed, hidden, sums.up, sums.up_bias, scratch);
    multiply(n, d, h, {hidden, h, 1}, layer.up_back, {}, {thin, d}, scratch);
    layer_norm_back(n, d, saved.normed, saved.deviation, thin, share.data(), t, attended);
    add_gradient(n, d, d, saved.mixed, attended, sums.proj, sums.proj_bias, scratch);
    multiply(n, d, d, {attended, d, 1}, layer.proj_back, {}, {thin, d}, scratch);
    for (Index i = 0; i < images; i++)
        for (Index head = 0; head < s.heads; head++) {
            Index at = i * t * d + head * s.width();
            attention_back(s, {s, saved.qkv, images, i, head}, saved.mixed + at, thin + at,
                           wide + 3 * i * t * d + head * s.width(), scratch);
        }
    if (s.embeds) embed(layer, input, images, scratch);
    layer_norm(n, d, s.embeds ? scratch.tokens.data() : input, scratch.normed.data(), scratch.deviation.data());
    add_gradient(n, d, 3 * d, scratch.normed.data(), wide, sums.qkv, sums.qkv_bias, scratch);
    if (!s.embeds) return;
    multiply(n, d, 3 * d, {wide, 3 * d, 1}, layer.qkv_back, {}, {thin, d}, scratch);
    layer_norm_back(n, d, scratch.normed.data(), scratch.deviation.data(), thin, attended, 1,
                    scratch.grad_tokens.data());
    embed_back(s, images, scratch, sums);
}

// From the gradients of a folded map to those of the map and of the norm in front of it.
void unfold(Index out, Index in, Index scaled, float scale, const float* by_weight, const float* by_bias,
            const float* w, const float* g, const float* b, float* grad_w, float* grad_c, float* grad_g,
            float* grad_b) {
    std::fill(grad_g, grad_g + in, 0.0f);
    std::fill(grad_b, grad_b + in, 0.0f);
    for (Index o = 0; o < out; o++) {
        float by = o < scaled ? scale : 1.0f;
        grad_c[o] = by * by_bias[o];
        for (Index i = 0; i < in; i++) {
            float own = by * by_weight[i * out + o];
            grad_w[o * in + i] = own * g[i] + grad_c[o] * b[i];
            grad_g[i] += own * w[o * in + i];
            grad_b[i] += grad_c[o] * w[o * in + i];
        }
    }
}

void unfold_all(const Layer& layer, const Gradients& sums, const Parameters<float>& out) {
    const Shape& s = layer.shape;
    const auto& own = layer.own;
    Index d = s.dim, h = s.hidden();
    unfold(3 * d, d, d, 1.0f / std::sqrt(float(s.width())), sums.qkv, sums.qkv_bias, own.qkv, own.scale1, own.shift1,
           out.qkv, out.qkv_bias, out.scale1, out.shift1);
    unfold(h, d, 0, 1.0f, sums.up, sums.up_bias, own.up, own.scale2, own.shift2, out.up, out.up_bias, out.scale2,
           out.shift2);
    transpose(d, d, sums.proj, d, out.proj, d);
    transpose(h, d, sums.down, d, out.down, h);
    std::copy_n(sums.proj_bias, d, out.proj_bias);
    std::copy_n(sums.down_bias, d, out.down_bias);
    if (!s.embeds) return;
    std::copy_n(sums.position, s.tokens * d, out.position);
    transpose(s.pixels(), d, sums.patch, d, out.patch, s.pixels());
    std::copy_n(sums.patch_bias, d, out.patch_bias);
}

// ----------------------------------------------------------------------------------------- in parallel

constexpr Index CHUNKS = 16;       // parts of a batch, whatever the number of threads
constexpr Index GROUP_ROWS = 128;  // about the number of tokens that go through a layer at a time

Index chunks(const Shape& s) { return std::min(CHUNKS, s.images); }
Index group_images(const Shape& s) { return std::max<Index>(1, GROUP_ROWS / s.tokens); }

// act(first image, images) for every group of a chunk.
template <class Act>
void each_group(const Shape& s, Index chunk, Act act) {
    Index begin = chunk * s.images / chunks(s), end = (chunk + 1) * s.images / chunks(s), most = group_images(s);
    for (Index first = begin; first < end; first += most) act(first, std::min(most, end - first));
}

}  // namespace

// -------------------------------------------------------------------------------------------- interface

extern "C" {

// Whether this CPU can multiply in bf16.
int seedspread_has_bf16() { return HAS_BF16; }

// The number of floats that a backward pass needs of each image.
Index seedspread_saved(const Shape* shape) { return shape->saved(); }

// input (images, C, H, W) or (images, T, d) -> pooled (images, d), output (images, T, d) unless null, and
// saved (images, seedspread_saved) unless null. Returns 0, or 1 if memory ran out.
int seedspread_forward(const Shape* shape, const float* const* parameters, const float* input, float* pooled,
                       float* output, float* saved, int threads) try {
    const Shape& s = *shape;
    Layer layer(s, parameters, true, false);
    in_parallel(threads, chunks(s), [&](auto next) {
        Scratch scratch(s, group_images(s), !saved);
        for (Index chunk = next(); chunk < chunks(s); chunk = next())
            each_group(s, chunk, [&](Index first, Index images) {
                Saved kept(s, saved ? saved + first * s.saved() : scratch.saved.data(), images);
                forward(layer, input + first * s.input(), images, kept, scratch, pooled + first * s.dim,
                        output ? output + first * s.tokens * s.dim : nullptr);
            });
    });
    return 0;
} catch (const std::exception&) {
    return 1;
}

// From grad_pooled (images, d) to the gradients of the parameters, which are overwritten. If `saved` is null, the
// forward pass is repeated.
int seedspread_backward(const Shape* shape, const float* const* parameters, const float* input, float* saved,
                        const float* grad_pooled, float* const* gradients, int threads) try {
    const Shape& s = *shape;
    Layer layer(s, parameters, !saved, true);
    Index size = Gradients::size(s);
    std::vector<float> sums(std::max<Index>(1, chunks(s)) * size);  // without images they are 0
    in_parallel(threads, chunks(s), [&](auto next) {
        Scratch scratch(s, group_images(s), !saved);
        std::vector<float> pooled(saved ? 0 : group_images(s) * s.dim);
        for (Index chunk = next(); chunk < chunks(s); chunk = next()) {
            Gradients own(s, &sums[chunk * size]);
            each_group(s, chunk, [&](Index first, Index images) {
                const float* part = input + first * s.input();
                Saved kept(s, saved ? saved + first * s.saved() : scratch.saved.data(), images);
                if (!saved) forward(layer, part, images, kept, scratch, pooled.data(), nullptr);
                backward(layer, part, images, kept, grad_pooled + first * s.dim, scratch, own);
            });
        }
    });
    for (Index chunk = 1; chunk < chunks(s); chunk++)
        for (Index j = 0; j < size; j++) sums[j] += sums[chunk * size + j];
    unfold_all(layer, Gradients(s, sums.data()), Parameters<float>(gradients, s.embeds));
    return 0;
} catch (const std::exception&) {
    return 1;
}

}  // extern "C"
