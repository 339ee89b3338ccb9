/*
 * Sweeps of faults: every call of a driver's function fails once, somewhere from opening a device through a round of work to
 * closing it. The status says so with the native name, nothing leaks on either side, and the work succeeds when it is done again.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_FAULT_SWEEP_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_FAULT_SWEEP_H

#include "api/device/core.h"
#include "tests/support/devices/test_devices.h"

#define SWEEP_ROWS 5
#define SWEEP_INNER 24
#define SWEEP_COLUMNS 7
#define SWEEP_CODES 3
/* Of the product, and of the buffer that it is copied to. */
#define SWEEP_BYTES sizeof(float[SWEEP_ROWS][SWEEP_COLUMNS])

/* What one round of the work holds: d = a·b, b out of b0 by a graph. */
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

/* What differs from driver to driver. */
typedef struct sweep_driver {
    int codes[SWEEP_CODES]; /* none of them says that the device is lost */
    const char *(*error_name)(int code);
    /* Objects of the driver that live. */
    long (*objects)(void);
    /* A second buffer on the native memory of round->copy. */
    tdm_status (*wrap)(sweep_round *round);
    /* The calls that the common work does not make; may write to a. `scratch` has as many floats as a and lives until the end. */
    tdm_status (*use_more)(const sweep_round *round, float *scratch);
    /* Has something said that there is a second way since the last call? NULL: it never does. */
    bool (*said)(void);
    bool probes; /* opening tries things that may fail */
} sweep_driver;

/*
 * Fail each call of the function. `quiet`: its failure may leave everything as it should be, because there is a second way, because
 * the pool asks again for less, or because what is released is gone anyway; that of others must be reported. `prepare` (or NULL)
 * runs before each round. Returns the number of calls that the work makes, and adds how many failures were reported.
 */
long sweep_function(const sweep_driver *driver, const char *selector, const char *function,
                    bool quiet, void (*prepare)(void), long *reported);

#endif
