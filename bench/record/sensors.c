#include "bench/record/sensors.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/record/environment_record.h"

typedef struct nvml_device_object *nvml_device;

typedef struct nvml_functions {
#define NVML_FUNCTION(member, symbol, parameters) int(*member) parameters;
#include "bench/record/nvml_functions.def"
#undef NVML_FUNCTION
} nvml_functions;

enum {
    MAX_PACKAGES = 16,
    MAX_THERMOMETERS = 16,
    MAX_NUMBERED = 64, /* entries of a folder of the system that are looked at */
    PATH_BYTES = 512,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    SENSOR_GPU = 0,
    /* bits of the throttle reasons that are no holding down: idle, clocks that somebody set */
    NOT_THROTTLED = 0x1 | 0x2
};

struct sensors {
    void *library; /* NULL: powercap */
    nvml_functions nvml;
    nvml_device device;
    int packages;
    char package[MAX_PACKAGES][PATH_BYTES];
    int thermometers;
    char thermometer[MAX_THERMOMETERS][PATH_BYTES];
};

const sensor_places sensor_places_of_system = {
    .nvml = "libnvidia-ml.so.1",
    .powercap = "/sys/class/powercap",
    .hwmon = "/sys/class/hwmon",
    .thermal = "/sys/class/thermal",
};

static const sensor_reading nothing = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0};

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

static int open_nvml(sensors *own, const char *path, const tdm_device_info *device) {
    own->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (own->library == NULL)
        return 0;
    look_up(own->library, &own->nvml);
    if (own->nvml.init != NULL && own->nvml.init() == 0) {
        if (find_at(own, device->pci_address, device->name) || find_named(own, device->name))
            return 1;
        if (own->nvml.shut_down != NULL)
            own->nvml.shut_down();
    }
    dlclose(own->library);
    own->library = NULL;
    return 0;
}

/* A whole number in a file; NaN when it cannot be read. */
static double read_file(const char *path) {
    char line[64];
    char *end = line;
    if (!environment_read_line(path, line, sizeof line))
        return NAN;
    const double value = strtod(line, &end);
    return end == line ? NAN : value;
}

static double read_number(const char *folder, const char *file) {
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return read_file(path);
}

/* The packages, not their parts, which they contain. */
static int open_powercap(sensors *own, const char *folder) {
    for (int i = 0; i < MAX_PACKAGES; i++) {
        char *const path = own->package[own->packages];
        snprintf(path, PATH_BYTES, "%s/intel-rapl:%d", folder, i);
        own->packages += isfinite(read_number(path, "energy_uj"));
    }
    return own->packages > 0;
}

static void add_thermometer(sensors *own, const char *folder, const char *file) {
    if (own->thermometers == MAX_THERMOMETERS || !isfinite(read_number(folder, file)))
        return;
    snprintf(own->thermometer[own->thermometers++], PATH_BYTES, "%s/%s", folder, file);
}

/* Those of entries "<folder>/<start><number>" in whose file stands one of the names. */
static void add_thermometers(sensors *own, const char *folder, const char *start,
                             const char *file_of_name, const char *const *names, const char *file) {
    for (int i = 0; i < MAX_NUMBERED; i++) {
        char path[PATH_BYTES - 32];
        char whole[PATH_BYTES];
        char name[64] = "";
        snprintf(path, sizeof path, "%s/%s%d", folder, start, i);
        snprintf(whole, sizeof whole, "%s/%s", path, file_of_name);
        if (!environment_read_line(whole, name, sizeof name))
            continue;
        for (const char *const *each = names; *each != NULL; each++) {
            if (strcmp(name, *each) == 0)
                add_thermometer(own, path, file);
        }
    }
}

/* The processors' own, of their drivers, or else of the zones that the firmware tells. */
static int open_thermometers(sensors *own, const sensor_places *places) {
    static const char *const drivers[] = {"coretemp", "k10temp", "zenpower", "cpu_thermal", NULL};
    static const char *const zones[] = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal", NULL};
    if (places->hwmon != NULL)
        add_thermometers(own, places->hwmon, "hwmon", "name", drivers, "temp1_input");
    if (places->thermal != NULL && own->thermometers == 0)
        add_thermometers(own, places->thermal, "thermal_zone", "type", zones, "temp");
    return own->thermometers > 0;
}

static int open_processors(sensors *own, const sensor_places *places) {
    const int packages = open_powercap(own, places->powercap);
    return open_thermometers(own, places) || packages;
}

sensors *sensors_open(const sensor_places *places, const tdm_device_info *device) {
    sensors *const own = calloc(1, sizeof *own);
    if (own == NULL)
        return NULL;
    const int opened = device->type == TDM_DEVICE_CPU ? open_processors(own, places)
                                                      : open_nvml(own, places->nvml, device);
    if (opened)
        return own;
    free(own);
    return NULL;
}

void sensors_close(sensors *own) {
    if (own == NULL)
        return;
    if (own->library != NULL) {
        if (own->nvml.shut_down != NULL)
            own->nvml.shut_down();
        dlclose(own->library);
    }
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

static sensor_reading read_packages(const sensors *own) {
    sensor_reading reading = nothing;
    if (own->packages > 0)
        reading.energy_j = reading.energy_wrap_j = 0;
    for (int i = 0; i < own->packages; i++) {
        reading.energy_j += 1e-6 * read_number(own->package[i], "energy_uj");
        reading.energy_wrap_j += 1e-6 * read_number(own->package[i], "max_energy_range_uj");
    }
    if (own->packages > 1) /* each begins again at a time of its own */
        reading.energy_wrap_j = NAN;
    for (int i = 0; i < own->thermometers; i++) /* the hottest; fmax passes over NaN */
        reading.temperature_c = fmax(reading.temperature_c, 1e-3 * read_file(own->thermometer[i]));
    return reading;
}

static sensor_reading read_gpu(const sensors *own) {
    sensor_reading reading = nothing;
    reading.energy_j = 1e-3 * long_number(own, own->nvml.energy_mj);
    reading.power_w = 1e-3 * number(own, own->nvml.power_mw);
    reading.temperature_c = number_of(own, own->nvml.temperature, SENSOR_GPU);
    reading.clock_mhz = number_of(own, own->nvml.clock_mhz, CLOCK_SM);
    read_throttle(own, &reading);
    return reading;
}

sensor_reading sensors_read(const sensors *own) {
    struct timespec now;
    if (own == NULL)
        return nothing;
    sensor_reading reading = own->library == NULL ? read_packages(own) : read_gpu(own);
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0)
        reading.at_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return reading;
}

static const sensor_facts no_facts = {
    .power_limit_w = NAN,
    .default_power_limit_w = NAN,
    .clock_mhz = NAN,
    .most_clock_mhz = NAN,
    .memory_clock_mhz = NAN,
    .most_memory_clock_mhz = NAN,
    .link_generation = NAN,
    .link_width = NAN,
    .most_link_generation = NAN,
    .most_link_width = NAN,
    .error_correction = NAN,
};

sensor_facts sensors_facts(const sensors *own) {
    sensor_facts facts = no_facts;
    int current = 0;
    int pending = 0;
    if (own == NULL)
        return facts;
    if (own->library == NULL) {
        facts.power_limit_w = own->packages > 0 ? 0 : NAN;
        for (int i = 0; i < own->packages; i++)
            facts.power_limit_w +=
                1e-6 * read_number(own->package[i], "constraint_0_power_limit_uw");
        return facts;
    }
    const nvml_functions *const nvml = &own->nvml;
    if (nvml->driver == NULL || nvml->driver(facts.driver, sizeof facts.driver) != 0)
        facts.driver[0] = '\0';
    facts.power_limit_w = 1e-3 * number(own, nvml->power_limit_mw);
    facts.default_power_limit_w = 1e-3 * number(own, nvml->default_power_limit_mw);
    facts.clock_mhz = number_of(own, nvml->clock_mhz, CLOCK_SM);
    facts.memory_clock_mhz = number_of(own, nvml->clock_mhz, CLOCK_MEMORY);
    facts.most_clock_mhz = number_of(own, nvml->most_clock_mhz, CLOCK_SM);
    facts.most_memory_clock_mhz = number_of(own, nvml->most_clock_mhz, CLOCK_MEMORY);
    facts.link_generation = number(own, nvml->link_generation);
    facts.link_width = number(own, nvml->link_width);
    facts.most_link_generation = number(own, nvml->most_link_generation);
    facts.most_link_width = number(own, nvml->most_link_width);
    if (nvml->error_correction != NULL &&
        nvml->error_correction(own->device, &current, &pending) == 0)
        facts.error_correction = current;
    return facts;
}

double sensors_joules(const sensor_reading *before, const sensor_reading *after) {
    const double joules = after->energy_j - before->energy_j;
    return joules < 0 ? joules + before->energy_wrap_j : joules;
}
