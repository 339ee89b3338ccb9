/* Defines once, for reductions and softmax, their error bounds and the shapes of edge cases. */
#ifndef TANDEM_COMMON_OP_REDUCE_H
#define TANDEM_COMMON_OP_REDUCE_H

#include <tandem/ops.h>

/*
 * A sum of K numbers in f32 is within OP_SUM_ROUNDINGS·2^-24·Σ|x| for any K. It has 16 additions in
 * a block, at most 12 in the trees that join lanes and work-items, and 2 that end a compensated
 * sum. Joining parts adds another 2. The mean has one more rounding, for the division, of 2.5 ulps.
 */
#define OP_SUM_ROUNDINGS 32

/* `axes`: bit d set reduces dimension d. `keep`: the reduced dimensions stay with size 1. */
typedef struct op_reduce_case {
    int rank;
    int64_t shape[TDM_MAX_RANK];
    unsigned axes;
    int keep;
} op_reduce_case;

/*
 * Covers one element, sizes below, at and above each vector and block width, and primes. The
 * reduced dimensions are in each position; there are cases with all dimensions and with only
 * dimensions of size 1. The last four cases are long enough to be split into parts. Slow
 * implementations take only the first ones.
 */
static const op_reduce_case op_reduce_cases[] = {
    {0, {0}, 0, 0},
    {1, {17}, 1, 0},
    {2, {5, 7}, 2, 0},
    {2, {3, 19}, 1, 1},
    {2, {3, 273}, 2, 0},
    {2, {35, 17}, 1, 0},
    {3, {3, 17, 5}, 2, 0},
    {3, {3, 5, 4}, 5, 0},
    {4, {2, 3, 5, 18}, 10, 0},
    {8, {2, 1, 3, 1, 2, 2, 1, 5}, 0x95, 0},
    {1, {1}, 1, 0},
    {1, {257}, 1, 1},
    {1, {4001}, 1, 0},
    {2, {5, 7}, 1, 0},
    {2, {3, 16}, 2, 1},
    {2, {16, 3}, 1, 1},
    {2, {7, 273}, 2, 0},
    {2, {273, 67}, 1, 0},
    {2, {37, 33}, 3, 0},
    {2, {1, 9}, 1, 0},
    {3, {4, 3, 32}, 1, 1},
    {3, {4, 3, 32}, 6, 0},
    {2, {3, 65537}, 2, 0},
    {3, {40, 2, 1009}, 5, 0},
    {2, {40009, 3}, 1, 0},
    {2, {70001, 1}, 3, 1},
};

enum {
    OP_REDUCE_CASES = sizeof op_reduce_cases / sizeof op_reduce_cases[0],
    OP_REDUCE_SMALL_CASES = 10
};

#endif
