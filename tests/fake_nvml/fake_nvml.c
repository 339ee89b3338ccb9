/*
 * This file fakes NVIDIA's management library with two GPUs of different names. FAKE_NVML_POOR
 * omits functions. FAKE_NVML_FAILING makes every function except the device listing fail.
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
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvml_device_object **device);
EXPORT int nvmlDeviceGetName(nvml_device_object *device, char *name, unsigned size);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device_object *device,
                                               unsigned long long *value);
EXPORT int nvmlDeviceGetPowerUsage(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvml_device_object *device, unsigned *value);
EXPORT int nvmlDeviceGetTemperature(nvml_device_object *device, int sensor, unsigned *value);
EXPORT int nvmlDeviceGetClockInfo(nvml_device_object *device, int clock, unsigned *value);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device_object *device,
                                                     unsigned long long *value);

int nvmlInit_v2(void) {
    return 0;
}

int nvmlShutdown(void) {
    return 0;
}

/* The devices are at 0000:3a:00.0 and 0000:3b:00.0. */
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

int nvmlDeviceGetName(nvml_device_object *device, char *name, unsigned size) {
    snprintf(name, size, "Fake GPU %d", device->index);
    return 0;
}

#ifndef FAKE_NVML_POOR
/* Each query adds half a joule. */
int nvmlDeviceGetTotalEnergyConsumption(nvml_device_object *device, unsigned long long *value) {
    static unsigned long long millijoules = 1000;
    millijoules += 500;
    *value = millijoules + (unsigned)device->index;
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

/* Alternates between idle and thermal throttling, for the second GPU. */
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device_object *device,
                                              unsigned long long *value) {
    static unsigned long long reasons;
    reasons = reasons == 1 ? 0x20 : 1;
    *value = device->index == 1 ? reasons : 0;
    return RESULT;
}
