/* What the rows of the capability table share. */
#ifndef TANDEM_BACKEND_OPENCL_PROBE_H
#define TANDEM_BACKEND_OPENCL_PROBE_H

#include "backend_opencl/opencl_internal.h"

typedef struct tdm_opencl_probe_state {
    const tdm_opencl_api *api;
    const tdm_opencl_record *record;
    cl_context context;
    cl_command_queue queue;
    bool hung; /* commands of the queue never finish */
} tdm_opencl_probe_state;

/* Are event times real nanoseconds? Two markers a millisecond apart must say so. */
bool tdm_opencl_probe_profiling(tdm_opencl_probe_state *probe);

/* Does a user event hold later commands back, and only later ones, also when there are two? */
bool tdm_opencl_probe_host_task(tdm_opencl_probe_state *probe);

/* Does the built-in of cl_qcom_dot_product8 exist and take signed bytes by unsigned ones? */
bool tdm_opencl_probe_qcom_dot(const tdm_opencl_probe_state *probe);

#endif
