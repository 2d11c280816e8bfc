#pragma once

// Vectors, products of matrices and threads, for the layer and its loss.
//
// Matrices are row-major float32. Products are blocked for registers by the compiler's vector extensions, so that
// one source serves AVX-512, AVX2 and NEON. Products in bf16, summed in float32, take AVX-512's own instructions.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace seedspread {

using Index = std::ptrdiff_t;

// ---------------------------------------------------------------------------------------------- vectors

#if defined(__AVX512F__)
constexpr int WIDTH = 16, ROWS = 12;  // 24 of 32 registers hold sums
#elif defined(__AVX2__)
constexpr int WIDTH = 8, ROWS = 6;  // 12 of 16
#else
constexpr int WIDTH = 4, ROWS = 8;
#endif
constexpr int PANEL = 2 * WIDTH;  // columns of a block of a product

typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int Integers __attribute__((vector_size(4 * WIDTH)));
typedef float Four __attribute__((vector_size(16)));
typedef float Half __attribute__((vector_size(2 * WIDTH)));  // for columns that fill no more

template <class V>
V load(const float* at) {
    V v;
    std::memcpy(&v, at, sizeof v);
    return v;
}

template <class V>
void store(float* at, V v) {
    std::memcpy(at, &v, sizeof v);
}

template <class V>
V load(const float* at, int lanes) {
    if (lanes * sizeof(float) >= sizeof(V)) return load<V>(at);
    V v{};
    if (lanes > 0) std::memcpy(&v, at, lanes * sizeof(float));
    return v;
}

template <class V>
void store(float* at, V v, int lanes) {
    if (lanes * sizeof(float) >= sizeof(V)) return store(at, v);
    if (lanes > 0) std::memcpy(at, &v, lanes * sizeof(float));
}

inline Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

// The larger one; b if one of them is NaN.
inline Vector maximum(Vector a, Vector b) { return a > b ? a : b; }

// Lanes of a and of b, numbered through both.
template <int... I, class V>
V shuffled(V a, V b) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(a, b, I...);
#else  // in older g++
    decltype(a < b) lanes = {I...};
    return __builtin_shuffle(a, b, lanes);
#endif
}

// Lanes from `BY` on, then those before.
template <int BY, int... I>
Vector rotate(Vector v, std::integer_sequence<int, I...>) {
    return shuffled<((I + BY) % WIDTH)...>(v, v);
}

template <int BY = WIDTH / 2>
float sum_of(Vector v) {
    v += rotate<BY>(v, std::make_integer_sequence<int, WIDTH>());
    if constexpr (BY == 1) return v[0];
    else return sum_of<BY / 2>(v);
}

// e^x to a unit or two in the last place; x is clamped from below so that the result is a normal number; NaN stays NaN.
inline Vector exponential(Vector x) {
    x = maximum(Vector{} - 87.3f, x);
    constexpr float shift = 12582912.0f;  // adding it rounds to an integer, kept in the low bits
    Vector shifted = x * 1.44269504f + shift, n = shifted - shift;
    Vector r = x - n * 0.693359375f - n * -2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    Integers bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000;  // 2^n
    Vector power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

// --------------------------------------------------------------------------------------------- products

// Element (m, k) of the left factor: at[m * row + k * step].
struct Left {
    const float* at;
    Index row, step;
};

// Columns j to j + PANEL of row k of the right factor, j a multiple of PANEL: at[j / PANEL * panel + k * step].
struct Right {
    const float* at;
    Index panel, step;
};

// An unpacked matrix; up to PANEL numbers behind its last row are read and not used.
inline Right plain(const float* at, Index columns) { return {at, PANEL, columns}; }

// The summand of a product: nothing, a matrix, one row for all rows, or both.
struct Start {
    const float* matrix = nullptr;
    Index row = 0;
    const float* bias = nullptr;
};

struct Out {
    float* at;
    Index row;
};

// out = start + left right, of m rows and n columns.
void product(Index m, Index n, Index depth, Left left, Right right, Start start, Out out);

// Whether this CPU multiplies bf16; if not, no function of bf16 below may be called.
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
constexpr bool HAS_BF16 = true;
#else
constexpr bool HAS_BF16 = false;
#endif

// The same for factors in bf16. A word, as long as a float, contains the numbers of k = 2 i (its low half) and 2 i + 1;
// if their number is odd, the last one is 0. The sum is over `words` of them, and strides count words.
void product_bf16(Index m, Index n, Index words, Left left, Right right, Start start, Out out);

inline Index words_of(Index depth) { return (depth + 1) / 2; }

// (rows, columns), `row` apart -> words (rows, words_of(columns)) of neighbors in a row.
void words_along(Index rows, Index columns, const float* from, Index row, float* to);

// (rows, columns), `row` apart -> words (words_of(rows), columns), `to_row` apart, of neighbors in a column.
void words_across(Index rows, Index columns, const float* from, Index row, float* to, Index to_row);

// (rows, words_of(columns)) words of neighbors in a row, `row` apart -> words (words_of(rows), columns) of neighbors in
// a column.
void words_turned(Index rows, Index columns, const float* from, Index row, float* to);

// A weight, element (k, j) at[k * row + j * column], as a right factor, in panels.
struct Packed {
    std::vector<float> values;
    Index depth;

    Packed() = default;
    Packed(const float* at, Index depth, Index columns, Index row, Index column)
        : values(round_up(columns, PANEL) * depth), depth(depth) {
        for (Index j = 0; j < columns; j++)
            for (Index k = 0; k < depth; k++)
                values[(j / PANEL * depth + k) * PANEL + j % PANEL] = at[k * row + j * column];
    }
    // The same weight in words of bf16.
    Packed in_bf16() const {
        Packed words;
        words.depth = words_of(depth);
        words.values.resize(values.size() / std::max<Index>(depth, 1) * words.depth);
        for (Index at = 0, to = 0; at < Index(values.size()); at += depth * PANEL, to += words.depth * PANEL)
            words_across(depth, PANEL, &values[at], PANEL, &words.values[to], PANEL);
        return words;
    }
    Right right() const { return {values.data(), depth * PANEL, PANEL}; }
};

// ----------------------------------------------------------------------------------------- in parallel

// Calls work(next) on `threads` threads; each takes from next() the number of its next task, until `tasks`. The result
// is the same if fewer threads can be started. If any thread throws, bad_alloc is thrown here once all have ended.
template <class Work>
void in_parallel(int threads, Index tasks, Work work) {
    std::atomic<Index> taken{0};
    auto next = [&taken] { return taken.fetch_add(1); };
    std::atomic<bool> failed{false};
    auto guarded = [&] {
        try {
            work(next);
        } catch (...) {
            failed = true;
        }
    };
    std::vector<std::thread> others;
    try {
        for (Index i = 1; i < std::min<Index>(threads, tasks); i++) others.emplace_back(guarded);
    } catch (const std::exception&) {  // no more threads can be started
    }
    guarded();
    for (auto& other : others) other.join();
    if (failed) throw std::bad_alloc();
}

}  // namespace seedspread
