/* TDM_BODY in place of TDM_INLINE: a function with much code that a kernel calls once or seldom, and that neither asks for ids nor waits at
 * a barrier. PoCL makes the code of a kernel and of all that is inline in it three times: as a function and in two launchers of groups. What is
 * a function of its own for CPU cores is made once, which takes a third of the time; elsewhere it is inline. */
#ifndef TDM_LONG_FUNCTIONS_H
#define TDM_LONG_FUNCTIONS_H

#if !defined(TDM_DIALECT_CXX) && defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_BODY static __attribute__((noinline))
#else
#define TDM_BODY TDM_INLINE
#ifndef TDM_DIALECT_CXX
/* Inlined pointers that are restricted leave a word behind that Oclgrind does not have. */
#undef TDM_RESTRICT
#define TDM_RESTRICT
#endif
#endif

#endif
