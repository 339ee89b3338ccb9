#include "bench/record/sensors.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_device_object *nvml_device;

/*
 * The functions of NVIDIA's management library that are used. They are declared here, so that the
 * program builds without its header. Columns: member, symbol, parameters. All return 0 for success.
 */
#define NVML_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(init, nvmlInit_v2, (void))                                                            \
    FUNCTION(shut_down, nvmlShutdown, (void))                                                      \
    FUNCTION(device_at, nvmlDeviceGetHandleByPciBusId_v2,                                          \
             (const char *address, nvml_device *device))                                           \
    FUNCTION(name, nvmlDeviceGetName, (nvml_device device, char *name, unsigned size))             \
    FUNCTION(energy_mj, nvmlDeviceGetTotalEnergyConsumption,                                       \
             (nvml_device device, unsigned long long *value))                                      \
    FUNCTION(power_mw, nvmlDeviceGetPowerUsage, (nvml_device device, unsigned *value))             \
    FUNCTION(power_limit_mw, nvmlDeviceGetEnforcedPowerLimit,                                      \
             (nvml_device device, unsigned *value))                                                \
    FUNCTION(temperature, nvmlDeviceGetTemperature,                                                \
             (nvml_device device, int sensor, unsigned *value))                                    \
    FUNCTION(clock_mhz, nvmlDeviceGetClockInfo, (nvml_device device, int clock, unsigned *value))  \
    FUNCTION(throttle, nvmlDeviceGetCurrentClocksThrottleReasons,                                  \
             (nvml_device device, unsigned long long *value))

typedef struct nvml_functions {
#define MEMBER(member, symbol, parameters) int(*member) parameters;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
} nvml_functions;

enum {
    CLOCK_SM = 1,
    SENSOR_GPU = 0,
    /* These throttle reasons do not count as throttling: idle, and clocks set by a user. */
    NOT_THROTTLED = 0x1 | 0x2
};

struct sensors {
    void *library;
    nvml_functions nvml;
    nvml_device device;
};

static const sensor_reading nothing = {NAN, NAN, NAN, NAN, NAN};

static void look_up(void *library, nvml_functions *functions) {
#define LOOK_UP(member, symbol, parameters) *(void **)&functions->member = dlsym(library, #symbol);
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
}

sensors *sensors_open(const char *nvml, const tdm_device_info *device) {
    char name[128] = "";
    sensors *const own = calloc(1, sizeof *own);
    if (own == NULL || (own->library = dlopen(nvml, RTLD_NOW | RTLD_LOCAL)) == NULL) {
        free(own);
        return NULL;
    }
    look_up(own->library, &own->nvml);
    /*
     * A partition of a device has another name, and the power of the whole device is not its own.
     */
    if (own->nvml.init != NULL && own->nvml.init() == 0 && own->nvml.device_at != NULL &&
        own->nvml.name != NULL && device->pci_address[0] != '\0' &&
        own->nvml.device_at(device->pci_address, &own->device) == 0 &&
        own->nvml.name(own->device, name, sizeof name) == 0 && strcmp(name, device->name) == 0)
        return own;
    sensors_close(own);
    return NULL;
}

void sensors_close(sensors *own) {
    if (own == NULL)
        return;
    if (own->nvml.shut_down != NULL)
        own->nvml.shut_down();
    dlclose(own->library);
    free(own);
}

typedef int (*get_number)(nvml_device device, unsigned *value);
typedef int (*get_long_number)(nvml_device device, unsigned long long *value);
typedef int (*get_number_of)(nvml_device device, int which, unsigned *value);

static double number(const sensors *own, get_number get) {
    unsigned value = 0;
    return own != NULL && get != NULL && get(own->device, &value) == 0 ? (double)value : NAN;
}

static double long_number(const sensors *own, get_long_number get) {
    unsigned long long value = 0;
    return own != NULL && get != NULL && get(own->device, &value) == 0 ? (double)value : NAN;
}

static double number_of(const sensors *own, get_number_of get, int which) {
    unsigned value = 0;
    return own != NULL && get != NULL && get(own->device, which, &value) == 0 ? (double)value : NAN;
}

static void read_throttle(const sensors *own, sensor_reading *reading) {
    unsigned long long reasons = 0;
    if (own->nvml.throttle != NULL && own->nvml.throttle(own->device, &reasons) == 0)
        reading->throttled = (reasons & ~(unsigned long long)NOT_THROTTLED) != 0;
}

sensor_reading sensors_read(const sensors *own) {
    sensor_reading reading = nothing;
    if (own == NULL)
        return reading;
    reading.energy_j = 1e-3 * long_number(own, own->nvml.energy_mj);
    reading.power_w = 1e-3 * number(own, own->nvml.power_mw);
    reading.temperature_c = number_of(own, own->nvml.temperature, SENSOR_GPU);
    reading.clock_mhz = number_of(own, own->nvml.clock_mhz, CLOCK_SM);
    read_throttle(own, &reading);
    return reading;
}

double sensors_power_limit_w(const sensors *own) {
    return own == NULL ? NAN : 1e-3 * number(own, own->nvml.power_limit_mw);
}
