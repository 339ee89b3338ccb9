/* BY_CODES(type, call): one call for each type of codes that the launch may give, so that each is compiled with its own
 * loops, in which only streaming is a choice; C++, which makes code for all of them in any case, has one. A text includes this after quant_steps.h. */
#ifndef TDM_QUANTIZE_TYPES_H
#define TDM_QUANTIZE_TYPES_H

#ifdef TDM_DIALECT_CXX
#define BY_CODES(type, call) call(type);
#else
#define EACH_CODES(plain, past, call)                                                              \
    case plain:                                                                                    \
        call(plain + past);                                                                        \
        break;
#define BY_CODES(type, call)                                                                       \
    {                                                                                              \
        const int past_caches = TDM_PAST_OF(type);                                                 \
        switch ((type)-past_caches) {                                                              \
            EACH_CODES(TDM_CODE_S8, past_caches, call)                                             \
            EACH_CODES(TDM_CODE_U8, past_caches, call)                                             \
            EACH_CODES(TDM_CODE_S4, past_caches, call)                                             \
        }                                                                                          \
    }
#endif

#endif
