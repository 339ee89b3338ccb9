/* BY_CODES(type, call) and BY_DEQUANTIZED(type, call) contain one call for each type that the
 * launch may give. Each type is thus compiled with its own loops, which only choose whether to use
 * non-temporal stores. In CUDA there is one form for all types, which nvcc compiles in a third of
 * the time. A work-item has few vectors there, and chooses the type once anyway. A kernel source
 * includes this after quant_steps.h. */
#ifndef TDM_QUANTIZE_TYPES_H
#define TDM_QUANTIZE_TYPES_H

#ifdef TDM_DIALECT_CXX
#define BY_CODES(type, call) call(type);
#define BY_DEQUANTIZED(type, call) call(type);
#else
#define EACH_TYPE(plain, past, call)                                                               \
    case plain:                                                                                    \
        call(plain + past);                                                                        \
        break;
#define BY_TYPES(type, past, call, A, B, C)                                                        \
    switch (type) {                                                                                \
        EACH_TYPE(A, past, call)                                                                   \
        EACH_TYPE(B, past, call)                                                                   \
        EACH_TYPE(C, past, call)                                                                   \
    }
#define BY_PLAIN_CODES(type, past, call)                                                           \
    BY_TYPES(type, past, call, TDM_CODE_S8, TDM_CODE_U8, TDM_CODE_S4)
#define BY_PLAIN_DEQUANTIZED(type, past, call)                                                     \
    BY_TYPES(type, past, call, TDM_CODE_F32, TDM_CODE_F16, TDM_CODE_BF16)
#define BY_PLAIN_AND_PAST(plain_types, type, call)                                                 \
    {                                                                                              \
        const int nontemporal = TDM_PAST_OF(type);                                                 \
        plain_types((type)-nontemporal, nontemporal, call)                                         \
    }
#define BY_CODES(type, call) BY_PLAIN_AND_PAST(BY_PLAIN_CODES, type, call)
#define BY_DEQUANTIZED(type, call) BY_PLAIN_AND_PAST(BY_PLAIN_DEQUANTIZED, type, call)
#endif

#endif
