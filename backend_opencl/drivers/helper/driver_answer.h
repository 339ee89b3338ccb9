/* The helper process's answer to its parent; see driver_helper.c. */
#ifndef TANDEM_BACKEND_OPENCL_DRIVERS_HELPER_DRIVER_ANSWER_H
#define TANDEM_BACKEND_OPENCL_DRIVERS_HELPER_DRIVER_ANSWER_H

/* The descriptor to which the letters are written. */
#define DRIVER_ANSWER 3

#define DRIVER_STARTED 's' /* the helper runs; whatever follows is caused by the driver */
#define DRIVER_FINE 'f'
#define DRIVER_PRINTED 'p' /* something was written to standard output */
#define DRIVER_CLOSED_INPUT '0'
#define DRIVER_CLOSED_OUTPUT '1'
#define DRIVER_CLOSED_ERROR '2'

#endif
