/*
 * Fault sweeps. Each call of a driver function fails once, somewhere from opening a device through
 * a round of work to closing it. The status must report the failure with the native name. Nothing
 * may leak on either side, and the work must succeed when it is repeated.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_FAULT_SWEEP_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_FAULT_SWEEP_H

#include "api/device/core.h"
#include "tests/support/devices/test_devices.h"

#define SWEEP_ROWS 5
#define SWEEP_INNER 24
#define SWEEP_COLUMNS 7
#define SWEEP_CODES 3
/* Bytes of the matrix d, and of the buffer that it is copied to. */
#define SWEEP_BYTES sizeof(float[SWEEP_ROWS][SWEEP_COLUMNS])

/* The objects of one round of work: d = a·b. A graph copies b0 to b. */
typedef struct sweep_round {
    tdm_device *device;
    tdm_stream *stream, *other;
    tdm_tensor *a, *b0, *b, *d;
    tdm_buffer *copy, *wrapped;
    tdm_host_buffer *pinned;
    tdm_event *begin, *end;
    tdm_graph *graph;
    int task_runs;
} sweep_round;

/* This is the part of a sweep that depends on the driver. */
typedef struct sweep_driver {
    int codes[SWEEP_CODES]; /* none of them means that the device is lost */
    const char *(*error_name)(int code);
    /* Number of live driver objects. */
    long (*objects)(void);
    /* Creates a second buffer on the native memory of round->copy. */
    tdm_status (*wrap)(sweep_round *round);
    /*
     * Makes the calls that the common work does not make. It may write to a. `scratch` has as many
     * floats as a and lives until the end.
     */
    tdm_status (*use_more)(const sweep_round *round, float *scratch);
    /* Returns true if a fallback was reported since the last call. NULL: none is ever reported. */
    bool (*said)(void);
    bool probes; /* opening makes calls that may fail */
} sweep_driver;

/*
 * Fails each call of the function. With `quiet`, a failure may go unreported in three cases: a
 * fallback exists, the pool retries with less, or the released object is gone anyway. Other
 * failures must be reported. `prepare` (or NULL) runs before each round. Returns the number of
 * calls that the work makes, and adds the number of reported failures.
 */
long sweep_function(const sweep_driver *driver, const char *selector, const char *function,
                    bool quiet, void (*prepare)(void), long *reported);

#endif
