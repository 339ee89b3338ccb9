/* BY_CODES(type, call): one call for each type of codes that the launch may give, streamed or not, so that each is compiled with its
 * own; C++, which makes code for all of them in any case, has one. A text includes this after quant_steps.h. */
#ifndef TDM_QUANTIZE_TYPES_H
#define TDM_QUANTIZE_TYPES_H

#ifdef TDM_DIALECT_CXX
#define BY_CODES(type, call) call(type);
#else
#define EACH_CODES(type, call)                                                                     \
    case type:                                                                                     \
        call(type);                                                                                \
        break;
#if TDM_BY_PRODUCTS && defined(TDM_CAN_STREAM)
#define EACH_STREAMED(call)                                                                        \
    EACH_CODES(TDM_STREAMED + TDM_CODE_S8, call)                                                   \
    EACH_CODES(TDM_STREAMED + TDM_CODE_U8, call)                                                   \
    EACH_CODES(TDM_STREAMED + TDM_CODE_S4, call)
#else
#define EACH_STREAMED(call)
#endif
#define BY_CODES(type, call)                                                                       \
    switch (type) {                                                                                \
        EACH_CODES(TDM_CODE_S8, call)                                                              \
        EACH_CODES(TDM_CODE_U8, call)                                                              \
        EACH_CODES(TDM_CODE_S4, call)                                                              \
        EACH_STREAMED(call)                                                                        \
    }
#endif

#endif
