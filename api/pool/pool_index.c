/* Index of free ranges; pool_index.h describes the scheme. */
#include <limits.h>

#include "api/pool/pool_index.h"

unsigned tdm_index_class(uint64_t units) {
    if (units < TDM_INDEX_STEPS)
        return (unsigned)units;
    const unsigned top = 63u - (unsigned)__builtin_clzll(units);
    const unsigned octave = top - TDM_INDEX_STEP_BITS + 1;
    const unsigned step = (unsigned)(units >> (top - TDM_INDEX_STEP_BITS)) % TDM_INDEX_STEPS;
    return octave * TDM_INDEX_STEPS + step;
}

void tdm_index_insert(tdm_pool_index *index, tdm_block *range, uint64_t units) {
    const unsigned class = tdm_index_class(units);
    const unsigned octave = class / TDM_INDEX_STEPS, step = class % TDM_INDEX_STEPS;
    tdm_block **const head = &index->heads[octave][step];
    range->previous = NULL;
    range->next = *head;
    if (*head)
        (*head)->previous = range;
    *head = range;
    index->octaves |= UINT64_C(1) << octave;
    index->steps[octave] = (uint16_t)(index->steps[octave] | 1u << step);
}

void tdm_index_remove(tdm_pool_index *index, tdm_block *range, uint64_t units) {
    if (range->next)
        range->next->previous = range->previous;
    if (range->previous) {
        range->previous->next = range->next;
        return;
    }
    const unsigned class = tdm_index_class(units);
    const unsigned octave = class / TDM_INDEX_STEPS, step = class % TDM_INDEX_STEPS;
    index->heads[octave][step] = range->next;
    if (range->next)
        return;
    index->steps[octave] = (uint16_t)(index->steps[octave] & ~(1u << step));
    if (index->steps[octave] == 0)
        index->octaves &= ~(UINT64_C(1) << octave);
}

/* Returns the list of the first class from `class` on that has ranges; *found is its number. */
static tdm_block *next_list(const tdm_pool_index *index, unsigned class, unsigned *found) {
    unsigned octave = class / TDM_INDEX_STEPS;
    if (octave >= TDM_INDEX_OCTAVES)
        return NULL;
    unsigned steps = index->steps[octave] & (~0u << class % TDM_INDEX_STEPS);
    if (steps == 0) {
        const uint64_t above = index->octaves & (~UINT64_C(1) << octave);
        if (above == 0)
            return NULL;
        octave = (unsigned)__builtin_ctzll(above);
        steps = index->steps[octave];
    }
    const unsigned step = (unsigned)__builtin_ctz(steps);
    *found = octave * TDM_INDEX_STEPS + step;
    return index->heads[octave][step];
}

static bool suits(const tdm_block *range, uint32_t stream) {
    return stream == 0 || range->dependencies[0].stream == stream;
}

static tdm_block *tightest(tdm_block *list, uint64_t bytes, uint32_t stream, uint64_t *visited) {
    tdm_block *best = NULL;
    for (int i = 0; list && i < TDM_INDEX_OWN_LOOKS; i++, list = list->next) {
        ++*visited;
        if (list->size < bytes || (best && list->size >= best->size) || !suits(list, stream))
            continue;
        best = list;
        if (best->size == bytes)
            break;
    }
    return best;
}

tdm_block *tdm_index_find(const tdm_pool_index *index, uint64_t bytes, uint64_t units,
                          uint32_t stream, uint64_t *visited) {
    unsigned class = tdm_index_class(units);
    tdm_block *const own = tightest(index->heads[class / TDM_INDEX_STEPS][class % TDM_INDEX_STEPS],
                                    bytes, stream, visited);
    if (own)
        return own;
    for (int i = 0; i < TDM_INDEX_MORE_CLASSES; i++) {
        tdm_block *range = next_list(index, class + 1, &class);
        for (int j = 0; range && j < TDM_INDEX_MORE_LOOKS; j++, range = range->next) {
            ++*visited;
            if (suits(range, stream))
                return range;
        }
    }
    return NULL;
}

/* Returns the list of the highest class that has ranges, or NULL. */
static tdm_block *top_list(const tdm_pool_index *index) {
    if (index->octaves == 0)
        return NULL;
    const unsigned octave = 63u - (unsigned)__builtin_clzll(index->octaves);
    const unsigned step = 31u - (unsigned)__builtin_clz(index->steps[octave]);
    return index->heads[octave][step];
}

tdm_block *tdm_index_top(const tdm_pool_index *index, int looks) {
    tdm_block *top = top_list(index);
    for (tdm_block *range = top; range && looks > 0; range = range->next, looks--)
        if (range->size > top->size)
            top = range;
    return top;
}

uint64_t tdm_index_largest(const tdm_pool_index *index) {
    const tdm_block *const largest = tdm_index_top(index, INT_MAX);
    return largest ? largest->size : 0;
}
