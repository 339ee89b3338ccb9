#include "cli/quantize/quantize_pieces.h"

#include <stdlib.h>

#include "cli/quantize/quantize_pass.h"
#include "quant/quant_reference.h"

typedef struct half {
    int64_t byte; /* of the tensor's codes */
    unsigned char bits;
} half;

struct quantize_pieces {
    const quantize_target *target;
    tdm_dtype dtype;
    unsigned char *bytes; /* a piece, from its first whole byte on */
    half *halves;
    size_t count, most;
};

quantize_pieces *quantize_pieces_create(const quantize_target *target, tdm_dtype dtype,
                                        int64_t longest, size_t halves) {
    quantize_pieces *const pieces = calloc(1, sizeof *pieces);
    if (!pieces)
        return NULL;
    *pieces = (quantize_pieces){.target = target, .dtype = dtype, .most = halves};
    pieces->bytes = calloc((size_t)longest / 2 + 1, 1);
    pieces->halves = calloc(halves + 1, sizeof *pieces->halves);
    if (pieces->bytes && pieces->halves)
        return pieces;
    quantize_pieces_destroy(pieces);
    return NULL;
}

static int put(const quantize_pieces *pieces, int64_t byte, const void *bytes, int64_t size,
               file_error *error) {
    const quantize_target *const target = pieces->target;
    return size == 0 ? 0
                     : target->put(target->user, target->data, (uint64_t)byte, bytes, (size_t)size,
                                   error);
}

/* One code of s4: written with the other half of its byte, or kept until that comes. */
static int put_half(quantize_pieces *pieces, int64_t element, int32_t code, file_error *error) {
    const int64_t byte = element / 2;
    const unsigned char bits = (unsigned char)((code & 15) << (element % 2 * 4));
    for (size_t i = 0; i < pieces->count; i++) {
        if (pieces->halves[i].byte != byte)
            continue;
        const unsigned char whole = pieces->halves[i].bits | bits;
        pieces->halves[i] = pieces->halves[--pieces->count];
        return put(pieces, byte, &whole, 1, error);
    }
    if (pieces->count == pieces->most)
        return file_fail(error, "more than %zu bytes of codes are half written", pieces->most);
    pieces->halves[pieces->count++] = (half){byte, bits};
    return 0;
}

static int put_s4(quantize_pieces *pieces, int64_t first, int64_t count, const void *codes,
                  int64_t at, file_error *error) {
    const int64_t end = first + count;
    if (first % 2 != 0 && count > 0) {
        if (put_half(pieces, first, tdm_quant_get(TDM_S4, codes, at), error))
            return -1;
        first++;
        at++;
    }
    const int64_t whole = (end - first) / 2;
    for (int64_t i = 0; i < whole; i++) {
        const int32_t low = tdm_quant_get(TDM_S4, codes, at + 2 * i);
        const int32_t high = tdm_quant_get(TDM_S4, codes, at + 2 * i + 1);
        pieces->bytes[i] = (unsigned char)((low & 15) | (high & 15) << 4);
    }
    if (put(pieces, first / 2, pieces->bytes, whole, error))
        return -1;
    return first + 2 * whole < end
               ? put_half(pieces, end - 1, tdm_quant_get(TDM_S4, codes, at + 2 * whole), error)
               : 0;
}

int quantize_pieces_put(quantize_pieces *pieces, int64_t first, int64_t count, const void *codes,
                        int64_t at, file_error *error) {
    if (pieces->dtype == TDM_S4)
        return put_s4(pieces, first, count, codes, at, error);
    return put(pieces, first, (const unsigned char *)codes + at, count, error);
}

int quantize_pieces_finish(quantize_pieces *pieces, file_error *error) {
    for (size_t i = 0; i < pieces->count; i++)
        if (put(pieces, pieces->halves[i].byte, &pieces->halves[i].bits, 1, error))
            return -1;
    pieces->count = 0;
    return 0;
}

void quantize_pieces_destroy(quantize_pieces *pieces) {
    if (!pieces)
        return;
    free(pieces->bytes);
    free(pieces->halves);
    free(pieces);
}
