/* Operation and dtype codes that kernels take as launch-time arguments. The values equal those of
 * the public enums, which the host asserts. There are two lists because a kernel source cannot
 * include library headers. */
#ifndef TDM_OP_CODES_H
#define TDM_OP_CODES_H

#define TDM_CODE_NEG 1
#define TDM_CODE_ABS 2
#define TDM_CODE_RELU 3
#define TDM_CODE_GELU 4
#define TDM_CODE_GELU_TANH 5
#define TDM_CODE_SILU 6
#define TDM_CODE_SIGMOID 7
#define TDM_CODE_TANH 8
#define TDM_CODE_EXP 9
#define TDM_CODE_SQRT 10
#define TDM_CODE_RSQRT 11
#define TDM_CODE_LOG 12
#define TDM_CODE_ERF 13
#define TDM_CODE_FLOOR 14
#define TDM_CODE_ROUND 15
#define TDM_CODE_SIN 16
#define TDM_CODE_COS 17
#define TDM_CODE_CLAMP 64 /* has no row in TDM_UNARY_LIST, because it takes bounds */

#define TDM_CODE_ADD 1
#define TDM_CODE_SUB 2
#define TDM_CODE_MUL 3
#define TDM_CODE_DIV 4
#define TDM_CODE_MIN 5
#define TDM_CODE_MAX 6
#define TDM_CODE_POW 7

#define TDM_CODE_EQUAL 1
#define TDM_CODE_NOT_EQUAL 2
#define TDM_CODE_LESS 3
#define TDM_CODE_LESS_EQUAL 4
#define TDM_CODE_GREATER 5
#define TDM_CODE_GREATER_EQUAL 6

#define TDM_CODE_REDUCE_SUM 1
#define TDM_CODE_REDUCE_MEAN 2
#define TDM_CODE_REDUCE_MAX 3
#define TDM_CODE_REDUCE_MIN 4

#define TDM_CODE_F32 1
#define TDM_CODE_F16 2
#define TDM_CODE_BF16 3
#define TDM_CODE_S32 16
#define TDM_CODE_S8 17
#define TDM_CODE_U8 18
#define TDM_CODE_S4 19
#define TDM_CODE_S64 20
#define TDM_CODE_BOOL 32

/* This flag is added to the code of an operation or of an output type. It means that the operands
 * do not fit into the caches, so that results use non-temporal stores if the kernel source can. */
#define TDM_CODE_NONTEMPORAL 256

#endif
