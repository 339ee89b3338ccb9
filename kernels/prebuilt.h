/* The kernels for CUDA that were compiled when the library was built. */
#ifndef TANDEM_KERNELS_PREBUILT_H
#define TANDEM_KERNELS_PREBUILT_H

/* Their architectures, as the build was told ("80;90a"); empty: the library holds stand-ins. */
const char *tdm_prebuilt_architectures(void);
/* The version of CUDA that compiled them, major * 1000 + minor * 10; 0: none did. */
int tdm_prebuilt_version(void);

#endif
