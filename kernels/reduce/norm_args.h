/* The host passes these flags to norm.cl and norm_group.cl. */
#ifndef TDM_NORM_ARGS_H
#define TDM_NORM_ARGS_H

#define TDM_NORM_HAS_RESIDUAL 1
#define TDM_NORM_HAS_SUM 2
#define TDM_NORM_SUBTRACTS_MEAN 4
#define TDM_NORM_NONTEMPORAL 8 /* the operands exceed the caches */

#endif
