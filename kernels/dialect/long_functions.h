/* TDM_BODY replaces TDM_INLINE for a long function that a kernel calls once or rarely. Such a
 * function uses no ids and no barrier. PoCL compiles a kernel and everything inlined in it three
 * times: as a function and in two work-group launchers. For CPU cores the function is therefore not
 * inlined; it is compiled once, which takes a third of the time. Elsewhere it is inlined. */
#ifndef TDM_LONG_FUNCTIONS_H
#define TDM_LONG_FUNCTIONS_H

#if !defined(TDM_DIALECT_CXX) && defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_BODY static __attribute__((noinline))
#else
#define TDM_BODY TDM_INLINE
#ifndef TDM_DIALECT_CXX
/* Oclgrind does not support what inlined restrict pointers leave in the code. */
#undef TDM_RESTRICT
#define TDM_RESTRICT
#endif
#endif

#endif
