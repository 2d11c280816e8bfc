// Products of matrices, in blocks that fill the registers.

#include "products.h"

#include <array>

namespace seedspread {
namespace {

// M rows and C vectors of columns, summed over k in order: an element's bits do not depend on the block.
template <class V, int M, int C>
void block(Index depth, Left a, const float* b, Index step, Start start, Out out, int columns) {
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
            for (int j = 0; j < C; j++) sum[i][j] += left * right[j];
        }
    }
    // What it is added to comes last: rounding is then that of the sum of products.
#pragma GCC unroll 4
    for (int j = 0; j < C; j++) {
        int wanted = columns - j * lanes;
        V bias = start.bias ? load<V>(start.bias + j * lanes, wanted) : V{};
#pragma GCC unroll 16
        for (int i = 0; i < M; i++) {
            V value = sum[i][j] + bias;
            if (start.matrix) value += load<V>(start.matrix + i * start.row + j * lanes, wanted);
            store(out.at + i * out.row + j * lanes, value, wanted);
        }
    }
}

template <class V, int C, int... M>
constexpr auto blocks_of(std::integer_sequence<int, M...>) {
    return std::array{&block<V, M + 1, C>...};  // by rows, from 1
}

// All rows of some columns, in blocks of nearly even height.
template <class V, int C>
void panel(Index m, Index depth, Left a, const float* b, Index step, Start start, Out out, int columns) {
    static constexpr auto blocks = blocks_of<V, C>(std::make_integer_sequence<int, ROWS>());
    for (Index left = (m + ROWS - 1) / ROWS; left > 0; left--) {
        Index rows = (m + left - 1) / left;
        blocks[rows - 1](depth, a, b, step, start, out, columns);
        m -= rows;
        a.at += rows * a.row;
        out.at += rows * out.row;
        if (start.matrix) start.matrix += rows * start.row;
    }
}

}  // namespace

void product(Index m, Index n, Index depth, Left left, Right right, Start start, Out out) {
    for (Index j = 0; j < n; j += PANEL) {
        const float* b = right.at + j / PANEL * right.panel;
        Start own = {start.matrix ? start.matrix + j : nullptr, start.row, start.bias ? start.bias + j : nullptr};
        Out to = {out.at + j, out.row};
        int columns = int(std::min<Index>(PANEL, n - j));
        if (columns > WIDTH) panel<Vector, 2>(m, depth, left, b, right.step, own, to, columns);
        else if (columns > WIDTH / 2) panel<Vector, 1>(m, depth, left, b, right.step, own, to, columns);
        else panel<Half, 1>(m, depth, left, b, right.step, own, to, columns);
    }
}

}  // namespace seedspread
