// Products of matrices, in blocks that fill the registers.

#include "products.h"

#include <array>
#include <cstdint>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace seedspread {
namespace {

// Adds the product of a number of the left factor and a vector of the right one to a sum.
struct Singles {
    template <class V>
    static V add(V sum, float left, V right) {
        return sum + left * right;
    }
};

#if defined(__AVX512BF16__) && defined(__AVX512VL__)
struct Words {
    static Vector add(Vector sum, float left, Vector right) {
        return _mm512_dpbf16_ps(sum, (__m512bh)right, (__m512bh)_mm512_set1_ps(left));
    }
    static Half add(Half sum, float left, Half right) {
        return _mm256_dpbf16_ps(sum, (__m256bh)right, (__m256bh)_mm256_set1_ps(left));
    }
};

// A mask of the first lanes of a vector; copying that many bytes would be a function call.
__mmask16 first(Index lanes) { return __mmask16((1u << std::clamp<Index>(lanes, 0, WIDTH)) - 1); }

// Two vectors rounded to bf16, `low` first.
__m512i rounded(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
#endif

// M rows and C vectors of columns, summed over k in order: an element's bits do not depend on the block. Whole blocks
// are stored by code of their own: if columns may be missing, the compiler would keep the sums in memory.
template <class Factors, class V, int M, int C>
void block(Index depth, const Left& a, const float* b, Index step, const Start& start, const Out& out, int columns) {
    constexpr int lanes = sizeof(V) / sizeof(float);
    V sum[M][C] = {};
    for (Index k = 0; k < depth; k++) {
        V right[C];
#pragma GCC unroll 4
        for (int j = 0; j < C; j++) right[j] = load<V>(b + k * step + j * lanes);
#pragma GCC unroll 16
        for (int i = 0; i < M; i++) {
            float left = a.at[i * a.row + k * a.step];
#pragma GCC unroll 4
            for (int j = 0; j < C; j++) sum[i][j] = Factors::add(sum[i][j], left, right[j]);
        }
    }
    // `start` is added last: rounding is then that of the sum of products.
    auto end = [&](auto wanted) {
#pragma GCC unroll 4
        for (int j = 0; j < C; j++) {
            V bias = start.bias ? load<V>(start.bias + j * lanes, wanted(j)) : V{};
#pragma GCC unroll 16
            for (int i = 0; i < M; i++) {
                V value = sum[i][j] + bias;
                if (start.matrix) value += load<V>(start.matrix + i * start.row + j * lanes, wanted(j));
                store(out.at + i * out.row + j * lanes, value, wanted(j));
            }
        }
    };
    if (columns == C * lanes) end([](int) { return lanes; });
    else end([columns](int j) { return columns - j * lanes; });
}

template <class Factors, class V, int C, int... M>
constexpr auto blocks_of(std::integer_sequence<int, M...>) {
    return std::array{&block<Factors, V, M + 1, C>...};  // by rows, from 1
}

// All rows of some columns, in blocks of nearly even height.
template <class Factors, class V, int C>
void panel(Index m, Index depth, Left a, const float* b, Index step, Start start, Out out, int columns) {
    static constexpr auto blocks = blocks_of<Factors, V, C>(std::make_integer_sequence<int, ROWS>());
    for (Index left = (m + ROWS - 1) / ROWS; left > 0; left--) {
        Index rows = (m + left - 1) / left;
        blocks[rows - 1](depth, a, b, step, start, out, columns);
        m -= rows;
        a.at += rows * a.row;
        out.at += rows * out.row;
        if (start.matrix) start.matrix += rows * start.row;
    }
}

template <class Factors>
void panels(Index m, Index n, Index depth, Left left, Right right, Start start, Out out) {
    for (Index j = 0; j < n; j += PANEL) {
        const float* b = right.at + j / PANEL * right.panel;
        Start own = {start.matrix ? start.matrix + j : nullptr, start.row, start.bias ? start.bias + j : nullptr};
        Out to = {out.at + j, out.row};
        int columns = int(std::min<Index>(PANEL, n - j));
        if (columns > WIDTH) panel<Factors, Vector, 2>(m, depth, left, b, right.step, own, to, columns);
        else if (columns > WIDTH / 2) panel<Factors, Vector, 1>(m, depth, left, b, right.step, own, to, columns);
        else panel<Factors, Half, 1>(m, depth, left, b, right.step, own, to, columns);
    }
}

}  // namespace

void product(Index m, Index n, Index depth, Left left, Right right, Start start, Out out) {
    panels<Singles>(m, n, depth, left, right, start, out);
}

#if defined(__AVX512BF16__) && defined(__AVX512VL__)

void product_bf16(Index m, Index n, Index words, Left left, Right right, Start start, Out out) {
    panels<Words>(m, n, words, left, right, start, out);
}

void words_along(Index rows, Index columns, const float* from, Index row, float* to) {
    for (Index i = 0; i < rows; i++, from += row, to += words_of(columns))
        for (Index j = 0; j < columns; j += PANEL) {
            Index lanes = columns - j;
            __m512 low = _mm512_maskz_loadu_ps(first(lanes), from + j);
            __m512 high = _mm512_maskz_loadu_ps(first(lanes - WIDTH), from + j + WIDTH);
            _mm512_mask_storeu_ps(to + j / 2, first(words_of(lanes)), (__m512)rounded(low, high));
        }
}

// Numbers of a row and those of the next one, WIDTH each -> words of both.
template <std::size_t... J>
inline __m512i paired(__m512i numbers, std::index_sequence<J...>) {
    alignas(64) static constexpr std::int16_t order[] = {(J / 2 + J % 2 * WIDTH)...};
    return _mm512_permutexvar_epi16(_mm512_load_si512(order), numbers);
}
inline __m512i paired(__m512i numbers) { return paired(numbers, std::make_index_sequence<PANEL>()); }

void words_across(Index rows, Index columns, const float* from, Index row, float* to, Index to_row) {
    for (Index i = 0; i < rows; i += 2, from += 2 * row, to += to_row)
        for (Index j = 0; j < columns; j += WIDTH) {
            __mmask16 own = first(columns - j);
            __m512 low = _mm512_maskz_loadu_ps(own, from + j);
            __m512 high = _mm512_maskz_loadu_ps(i + 1 < rows ? own : 0, from + row + j);
            _mm512_mask_storeu_ps(to + j, own, (__m512)paired(rounded(low, high)));
        }
}

void words_turned(Index rows, Index columns, const float* from, Index row, float* to) {
    for (Index i = 0; i < rows; i += 2, from += 2 * row, to += columns)
        for (Index j = 0; j < columns; j += WIDTH) {
            __mmask8 own = __mmask8(first(words_of(std::min<Index>(columns - j, WIDTH))));
            __m256i low = _mm256_maskz_loadu_epi32(own, from + j / 2);
            __m256i high = _mm256_maskz_loadu_epi32(i + 1 < rows ? own : 0, from + row + j / 2);
            __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
            _mm512_mask_storeu_ps(to + j, first(columns - j), (__m512)paired(both));
        }
}

#else  // never called, see HAS_BF16

void product_bf16(Index, Index, Index, Left, Right, Start, Out) {}
void words_along(Index, Index, const float*, Index, float*) {}
void words_across(Index, Index, const float*, Index, float*, Index) {}
void words_turned(Index, Index, const float*, Index, float*) {}

#endif

}  // namespace seedspread
