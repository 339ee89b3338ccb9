/*
 * A stand-in for NVIDIA's management library with two GPUs of different names. FAKE_NVML_POOR leaves functions out, FAKE_NVML_FAILING makes
 * all but the list of devices fail, FAKE_NVML_TWINS gives both GPUs one name.
 */
#include <stdio.h>
#include <string.h>

typedef struct nvml_device_object {
    int index;
} nvml_device_object;

#define EXPORT __attribute__((visibility("default")))

#ifdef FAKE_NVML_FAILING
enum {
    RESULT = 999
};
#else
enum {
    RESULT = 0
};
#endif

static nvml_device_object devices[2] = {{0}, {1}};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device_object **device);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvml_device_object **device);
EXPORT int nvmlDeviceGetName(nvml_device_object *device, char *name, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device_object *device,
                                               unsigned long long *value);
EXPORT int nvmlDeviceGetPowerUsage(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetTemperature(nvml_device_object *device, int sensor, unsigned *value);
EXPORT int nvmlDeviceGetClockInfo(nvml_device_object *device, int clock, unsigned *value);
EXPORT int nvmlDeviceGetMaxClockInfo(nvml_device_object *device, int clock, unsigned *value);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device_object *device,
                                                     unsigned long long *value);
EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetEccMode(nvml_device_object *device, int *current, int *pending);

int nvmlInit_v2(void) {
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device_object **device) {
    *device = &devices[index];
    return 0;
}

#ifndef FAKE_NVML_POOR
/* At 0000:3a:00.0 and 0000:3b:00.0. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvml_device_object **device) {
    static const char *const addresses[] = {"0000:3a:00.0", "0000:3b:00.0"};
    for (int i = 0; i < 2; i++) {
        if (strcmp(address, addresses[i]) != 0)
            continue;
        *device = &devices[i];
        return 0;
    }
    return 6; /* NVML_ERROR_NOT_FOUND */
}
#endif

int nvmlDeviceGetName(nvml_device_object *device, char *name, unsigned size) {
#ifdef FAKE_NVML_TWINS
    snprintf(name, size, "Fake GPU %d", 0 * device->index);
#else
    snprintf(name, size, "Fake GPU %d", device->index);
#endif
    return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    snprintf(version, size, "555.1");
    return RESULT;
}

#ifndef FAKE_NVML_POOR
/* Half a joule for each question. */
int nvmlDeviceGetTotalEnergyConsumption(nvml_device_object *device, unsigned long long *value) {
    static unsigned long long millijoules = 1000;
    millijoules += 500;
    *value = millijoules + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetEccMode(nvml_device_object *device, int *current, int *pending) {
    *current = device->index;
    *pending = 0;
    return RESULT;
}
#endif

int nvmlDeviceGetPowerUsage(nvml_device_object *device, unsigned *value) {
    *value = 150000 + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device_object *device, unsigned *value) {
    *value = 350000 + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetTemperature(nvml_device_object *device, int sensor, unsigned *value) {
    *value = 60 + (unsigned)device->index + (unsigned)sensor;
    return RESULT;
}

int nvmlDeviceGetClockInfo(nvml_device_object *device, int clock, unsigned *value) {
    *value = 1000 * (unsigned)clock + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetMaxClockInfo(nvml_device_object *device, int clock, unsigned *value) {
    *value = 1100 * (unsigned)clock + (unsigned)device->index;
    return RESULT;
}

/* Idle, then held down for heat, and so on. */
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device_object *device,
                                              unsigned long long *value) {
    static unsigned long long reasons;
    reasons = reasons == 1 ? 0x20 : 1;
    *value = device->index == 1 ? reasons : 0;
    return RESULT;
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device_object *device, unsigned *value) {
    *value = 4 + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetCurrPcieLinkWidth(nvml_device_object *device, unsigned *value) {
    *value = 8 * (1 + (unsigned)device->index);
    return RESULT;
}

int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device_object *device, unsigned *value) {
    *value = 5 + (unsigned)device->index;
    return RESULT;
}

int nvmlDeviceGetMaxPcieLinkWidth(nvml_device_object *device, unsigned *value) {
    *value = 16 * (1 + (unsigned)device->index);
    return RESULT;
}

int nvmlDeviceGetPowerManagementDefaultLimit(nvml_device_object *device, unsigned *value) {
    *value = 700000 + (unsigned)device->index;
    return RESULT;
}
