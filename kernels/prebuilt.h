/* The CUDA kernels that were compiled when the library was built. */
#ifndef TANDEM_KERNELS_PREBUILT_H
#define TANDEM_KERNELS_PREBUILT_H

/* Returns their architectures as configured ("80;90a"), or "" if the library holds stand-ins. */
const char *tdm_prebuilt_architectures(void);
/* Returns the CUDA version that compiled them, major * 1000 + minor * 10, or 0 if none did. */
int tdm_prebuilt_version(void);

#endif
