#include "bench/record/sensors.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_device_object *nvml_device;

typedef struct nvml_functions {
#define NVML_FUNCTION(member, symbol, parameters) int(*member) parameters;
#include "bench/record/nvml_functions.def"
#undef NVML_FUNCTION
} nvml_functions;

enum {
    CLOCK_SM = 1,
    SENSOR_GPU = 0,
    /* bits of the throttle reasons that are no holding down: idle, clocks that somebody set */
    NOT_THROTTLED = 0x1 | 0x2
};

struct sensors {
    void *library;
    nvml_functions nvml;
    nvml_device device;
};

static const sensor_reading nothing = {NAN, NAN, NAN, NAN, NAN, 0};

static void look_up(void *library, nvml_functions *functions) {
#define NVML_FUNCTION(member, symbol, parameters)                                                  \
    *(void **)&functions->member = dlsym(library, #symbol);
#include "bench/record/nvml_functions.def"
#undef NVML_FUNCTION
}

/* The device at this address, where it has this name: a part of it has another, and not its power. */
static int find_at(sensors *own, const char *address, const char *name) {
    char other[128] = "";
    return address[0] != '\0' && own->nvml.device_at != NULL && own->nvml.name != NULL &&
           own->nvml.device_at(address, &own->device) == 0 &&
           own->nvml.name(own->device, other, sizeof other) == 0 && strcmp(other, name) == 0;
}

/* The one device of this name. */
static int find_named(sensors *own, const char *name) {
    unsigned count = 0;
    int found = 0;
    if (own->nvml.count == NULL || own->nvml.device == NULL || own->nvml.name == NULL ||
        own->nvml.count(&count) != 0)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_device device = NULL;
        char other[128] = "";
        if (own->nvml.device(i, &device) != 0 || own->nvml.name(device, other, sizeof other) != 0 ||
            strcmp(other, name) != 0)
            continue;
        own->device = device;
        found++;
    }
    return found == 1;
}

sensors *sensors_open(const char *nvml, const tdm_device_info *device) {
    sensors *const own = calloc(1, sizeof *own);
    if (own == NULL || (own->library = dlopen(nvml, RTLD_NOW | RTLD_LOCAL)) == NULL) {
        free(own);
        return NULL;
    }
    look_up(own->library, &own->nvml);
    if (own->nvml.init != NULL && own->nvml.init() == 0 &&
        (find_at(own, device->pci_address, device->name) || find_named(own, device->name)))
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
    return get != NULL && get(own->device, &value) == 0 ? (double)value : NAN;
}

static double long_number(const sensors *own, get_long_number get) {
    unsigned long long value = 0;
    return get != NULL && get(own->device, &value) == 0 ? (double)value : NAN;
}

static double number_of(const sensors *own, get_number_of get, int which) {
    unsigned value = 0;
    return get != NULL && get(own->device, which, &value) == 0 ? (double)value : NAN;
}

static void read_throttle(const sensors *own, sensor_reading *reading) {
    unsigned long long reasons = 0;
    if (own->nvml.throttle == NULL || own->nvml.throttle(own->device, &reasons) != 0)
        return;
    reading->throttle_reasons = reasons & ~(unsigned long long)NOT_THROTTLED;
    reading->throttled = reading->throttle_reasons != 0;
}

void sensors_name_reasons(unsigned long long reasons, char text[SENSOR_REASONS_TEXT]) {
    static const struct {
        unsigned long long bit;
        const char *name;
    } names[] = {{0x4, "power-cap"},      {0x8, "hardware-slowdown"}, {0x10, "sync-boost"},
                 {0x20, "heat"},          {0x40, "hardware-heat"},    {0x80, "power-brake"},
                 {0x100, "display-clock"}};
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((reasons & names[i].bit) == 0)
            continue;
        length += (size_t)snprintf(text + length, SENSOR_REASONS_TEXT - length, "%s%s",
                                   length > 0 ? ", " : "", names[i].name);
        reasons &= ~names[i].bit;
    }
    if (reasons != 0)
        snprintf(text + length, SENSOR_REASONS_TEXT - length, "%s%#llx", length > 0 ? ", " : "",
                 reasons);
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

void sensors_facts(const sensors *own, sensor_fact facts[SENSOR_FACTS]) {
    static const nvml_functions none;
    const nvml_functions *const nvml = own == NULL ? &none : &own->nvml;
    const sensor_fact found[SENSOR_FACTS] = {
        {"power_limit_w", 1e-3 * number(own, nvml->power_limit_mw)},
        {"power_limit_default_w", 1e-3 * number(own, nvml->default_power_limit_mw)},
        {"pcie_generation", number(own, nvml->link_generation)},
        {"pcie_generation_most", number(own, nvml->most_link_generation)},
        {"pcie_width", number(own, nvml->link_width)},
        {"pcie_width_most", number(own, nvml->most_link_width)}};
    memcpy(facts, found, sizeof found);
}
