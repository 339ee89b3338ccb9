/*
 * What the machine and its drivers do to every figure, beside what environment_record.h tells: who runs the machine, what its kernel
 * guards against, whether its clocks may rise. Folders are arguments, so that tests give their own.
 */
#ifndef TANDEM_BENCH_RECORD_ENVIRONMENT_MACHINE_H
#define TANDEM_BENCH_RECORD_ENVIRONMENT_MACHINE_H

#include <stddef.h>

/*
 * Each writes a text and returns 1; 0 where the system does not tell.
 */

/* "none", or what a virtual machine's processor calls its host: "KVMKVMKVM". */
int environment_hypervisor(char *text, size_t size);

/* "on" or "off", from the folder of the processors, /sys/devices/system/cpu. */
int environment_boost(const char *folder, char *text, size_t size);

/* Name and version of the OpenCL loader that this process has open: "OpenCL ICD Loader 2.3.1". */
int environment_opencl_loader(char *text, size_t size);

/* "meltdown: Mitigation: PTI; …" of a folder like /sys/devices/system/cpu/vulnerabilities, without what does not affect the processor. */
int environment_mitigations(const char *folder, char *text, size_t size);

#endif
