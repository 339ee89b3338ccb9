/* Non-temporal stores of whole result vectors, for operands that do not fit into the caches. With
 * ordinary stores each cache line of the output would be read first. This applies to CPU cores; N
 * is the vector width of the kernel source. */
#ifndef TDM_NONTEMPORAL_H
#define TDM_NONTEMPORAL_H

/* These store the vector v at element i of p. The store is non-temporal if `past` is set, which
 * requires that tdm_row_past returned 1. */
#if N == 16 && defined(TDM_CAN_STREAM_NARROW)
#define TDM_WHOLE_PAST_(past, stream, store)                                                       \
    do {                                                                                           \
        if (past)                                                                                  \
            stream;                                                                                \
        else                                                                                       \
            store;                                                                                 \
    } while (0)
#define TDM_STREAM_f32_(v, p, i) TDM_STREAMV(N, v, p, i)
#define TDM_STREAM_f16_(v, p, i) f32x16_stream_f16(v, p, i)
#define TDM_STREAM_bf16_(v, p, i) f32x16_stream_bf16(v, p, i)
#define TDM_STREAM_s32_(v, p, i) TDM_STREAMV(N, s32x16_float(v), (TDM_GLOBAL tdm_f32 *)(p), i)
#define TDM_STREAM_s8_(v, p, i) TDM_INT_STREAMV(N, s8, v, p, i)
#define TDM_STREAM_u8_(v, p, i) TDM_INT_STREAMV(N, u8, v, p, i)
#define TDM_STREAM_s4_(v, p, i) TDM_INT_STREAMV(N, s4, v, p, i)

/* Returns 1 if the whole vectors of a row may use non-temporal stores. They begin at byte `at` of p
 * and have `bytes` bytes each. */
TDM_DEVICE int tdm_row_past(int wanted, TDM_GLOBAL const void *p, long at, int bytes) {
    return wanted && ((long)tdm_address((TDM_GLOBAL const tdm_u8 *)p) + at) % bytes == 0;
}
#else
#define TDM_WHOLE_PAST_(past, stream, store)                                                       \
    do {                                                                                           \
        (void)(past);                                                                              \
        store;                                                                                     \
    } while (0)
#define tdm_row_past(wanted, p, at, bytes) ((void)(wanted), (void)(bytes), 0)
#endif
#define TDM_STOREV_PAST(past, DT, v, p, i)                                                         \
    TDM_WHOLE_PAST_(past, TDM_CAT4(TDM_STREAM_, DT, _, )(v, p, i),                                 \
                    TDM_STOREV_GLOBAL(N, DT, v, p, i))
#define TDM_INT_STOREV_PAST(past, DT, v, p, i)                                                     \
    TDM_WHOLE_PAST_(past, TDM_CAT4(TDM_STREAM_, DT, _, )(v, p, i),                                 \
                    TDM_INT_STOREV_GLOBAL(N, DT, v, p, i))

#endif
