#include "bench/record/environment_record.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"

enum {
    MAX_CACHES = 8 /* per processor */
};

extern char **environ;

static const char cpu_file[] = "/proc/cpuinfo";

/* Variables that affect measurements begin with these prefixes. */
static const char *const variable_starts[] = {
    "OMP_", "GOMP_",    "OPENBLAS_", "DNNL_", "ONEDNN_", "POCL_",   "RUSTICL_",
    "LP_",  "GALLIUM_", "OCL_",      "CUDA_", "TANDEM_", "MALLOC_", "LD_PRELOAD"};

/* Finds the value of "key : value" or KEY=value in a system file. Returns 0 if there is none. */
static int find_value(const char *path, const char *key, char separator, char *value, size_t size) {
    char line[512];
    int found = 0;
    FILE *const file = fopen(path, "r");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *const at = strchr(line, separator);
        if (at == NULL || strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *const start = at + 1 + strspn(at + 1, " \t\"");
        snprintf(value, size, "%.*s", (int)strcspn(start, "\"\n"), start);
        found = 1;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static int read_line(const char *path, char *line, size_t size) {
    FILE *const file = fopen(path, "r");
    if (file == NULL)
        return 0;
    const int ok = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

int environment_processors(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Returns the size of a cache of the first processor. */
static double cache_size(int index) {
    char path[128], text[32];
    char *unit = NULL;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    if (!read_line(path, text, sizeof text))
        return 0;
    const double number = (double)strtoll(text, &unit, 10);
    return number * (*unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1);
}

long long environment_cache_bytes(void) {
    double largest = 0;
    for (int index = 0; index < MAX_CACHES; index++)
        largest = fmax(largest, cache_size(index));
    return (long long)largest;
}

cJSON *environment_host(void) {
    char text[256];
    struct utsname system;
    const int known = uname(&system) == 0;
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    cJSON *const host = cJSON_CreateObject();
    results_put_text(host, "cpu",
                     find_value(cpu_file, "model name", ':', text, sizeof text) ? text
                     : known                                                    ? system.machine
                                                                                : NULL);
    cJSON_AddNumberToObject(host, "cores", environment_processors());
    results_put_number(host, "ram_bytes", bytes > 0 ? bytes : NAN);
    results_put_text(host, "os",
                     find_value("/etc/os-release", "PRETTY_NAME", '=', text, sizeof text) ? text
                     : known ? system.sysname
                             : NULL);
    return host;
}

/*
 * Returns the variables that affect measurements. Values with a '/' keep only the part after the
 * last one.
 */
static cJSON *environment_variables(void) {
    cJSON *const variables = cJSON_CreateObject();
    for (char **each = environ; *each != NULL; each++)
        for (size_t i = 0; i < sizeof variable_starts / sizeof *variable_starts; i++) {
            char name[64];
            const size_t length = strcspn(*each, "=");
            if (strncmp(*each, variable_starts[i], strlen(variable_starts[i])) != 0 ||
                (*each)[length] == '\0' || length >= sizeof name)
                continue;
            const char *const value = *each + length + 1;
            const char *const slash = strrchr(value, '/');
            snprintf(name, sizeof name, "%.*s", (int)length, *each);
            cJSON_AddStringToObject(variables, name, slash == NULL ? value : slash + 1);
        }
    return variables;
}

cJSON *environment_settings(void) {
    static const char *const files[][2] = {
        {"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"}};
    char text[256];
    struct utsname system;
    const long long cache = environment_cache_bytes();
    cJSON *const settings = cJSON_CreateObject();
    results_put_text(settings, "kernel", uname(&system) == 0 ? system.release : NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        results_put_text(settings, files[i][0],
                         read_line(files[i][1], text, sizeof text) ? text : NULL);
    results_put_number(settings, "cpu_cache_bytes", cache > 0 ? (double)cache : NAN);
    results_put_number(settings, "threads", environment_processors());
    cJSON_AddItemToObject(settings, "variables", environment_variables());
    return settings;
}

long long environment_available_bytes(void) {
    char text[64];
    return find_value("/proc/meminfo", "MemAvailable", ':', text, sizeof text)
               ? 1024 * strtoll(text, NULL, 10)
               : 0;
}

/* ---- other processes on the machine ---------------------------------------------------------- */

const double machine_busy_much = 0.1;

machine_use machine_use_in(const char *path, double own) {
    /* The columns are: user nice system idle iowait irq softirq steal. */
    static const int is_busy[] = {1, 1, 1, 0, 0, 1, 1, 1};
    const machine_use unknown = {NAN, NAN, NAN};
    machine_use use = {0, 0, own};
    char line[512] = "";
    if (!read_line(path, line, sizeof line) || strncmp(line, "cpu ", 4) != 0)
        return unknown;
    char *at = line + 4;
    for (size_t i = 0; i < sizeof is_busy / sizeof *is_busy; i++) {
        char *end = NULL;
        const double ticks = strtod(at, &end);
        if (end == at)
            return unknown;
        use.all += ticks;
        use.busy += is_busy[i] ? ticks : 0;
        at = end;
    }
    return use;
}

static double seconds_of(int who) {
    struct rusage usage;
    if (getrusage(who, &usage) != 0)
        return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

machine_use machine_use_now(void) {
    const double own = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
    return machine_use_in("/proc/stat", own * (double)sysconf(_SC_CLK_TCK));
}

double machine_busy_share(const machine_use *before, const machine_use *after) {
    const double all = after->all - before->all;
    const double others = after->busy - before->busy - (after->own - before->own);
    if (!(all > 0) || isnan(others))
        return NAN;
    return fmax(0, others / all); /* ticks are rounded */
}
