#include "bench/record/environment_record.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"

enum {
    MOST_CACHES = 8 /* of a processor */
};

/*
 * Variables that change what is measured. Values with a '/' are cut to what follows the last one.
 */
static const char *const recorded_variables[] = {
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_THREAD_TIMEOUT",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "POCL_AFFINITY",
    "POCL_MAX_PTHREAD_COUNT",
    "POCL_MAX_WORK_GROUP_SIZE",
    "POCL_DEVICES",
    "POCL_WORK_GROUP_METHOD",
    "POCL_KERNEL_CACHE",
    "RUSTICL_ENABLE",
    "LP_NUM_THREADS",
    "LP_NATIVE_VECTOR_WIDTH",
    "GALLIUM_DRIVER",
    "OCL_ICD_VENDORS",
    "CUDA_VISIBLE_DEVICES",
    "TANDEM_POOL",
    "TANDEM_OPENCL_LIBRARY",
    "TANDEM_CUDA_LIBRARY",
    "TANDEM_CACHE_DIR",
    "MALLOC_ARENA_MAX",
    "LD_PRELOAD",
};

/*
 * Value of "key : value" or KEY=value in a file of the system, without quotes; 0 when there is
 * none.
 */
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

int environment_read_line(const char *path, char *line, size_t size) {
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

/* Numbers of a list like "0-3,8". */
static int count_listed(const char *list) {
    int count = 0;
    while (*list != '\0') {
        char *end = NULL;
        const long first = strtol(list, &end, 10);
        if (end == list)
            return count;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        count += last < first ? 0 : (int)(last - first) + 1;
        list = *end == ',' ? end + 1 : end;
        if (*end != ',')
            return count;
    }
    return count;
}

/* A fact of a cache of the first processor. */
static int read_cache(int index, const char *fact, char *text, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, fact);
    return environment_read_line(path, text, size);
}

static double cache_size(int index) {
    char text[32];
    char *unit = NULL;
    if (!read_cache(index, "size", text, sizeof text))
        return 0;
    const double number = (double)strtoll(text, &unit, 10);
    return number * (*unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1);
}

long long environment_cache_bytes(void) {
    double largest = 0;
    for (int index = 0; index < MOST_CACHES; index++)
        largest = fmax(largest, cache_size(index));
    return (long long)largest;
}

int environment_caches(int processors, double *bytes, int most) {
    int count = 0;
    for (int index = 0; index < MOST_CACHES && count < most; index++) {
        char type[32];
        char sharing[256];
        const double each = cache_size(index);
        if (each <= 0 || !read_cache(index, "type", type, sizeof type) ||
            strcmp(type, "Instruction") == 0)
            continue;
        const int shared = read_cache(index, "shared_cpu_list", sharing, sizeof sharing)
                               ? count_listed(sharing)
                               : 1;
        const double all = each * ceil((double)processors / (shared < 1 ? 1 : shared));
        int place = count++;
        for (; place > 0 && bytes[place - 1] > all; place--)
            bytes[place] = bytes[place - 1];
        bytes[place] = all;
    }
    return count;
}

static void add_operating_system(cJSON *host) {
    char text[256];
    struct utsname system;
    if (find_value("/etc/os-release", "PRETTY_NAME", '=', text, sizeof text))
        results_put_text(host, "os", text);
    else
        results_put_text(host, "os", uname(&system) == 0 ? system.sysname : NULL);
}

cJSON *environment_host(void) {
    char text[256];
    struct utsname system;
    cJSON *const host = cJSON_CreateObject();
    if (find_value("/proc/cpuinfo", "model name", ':', text, sizeof text))
        results_put_text(host, "cpu", text);
    else
        results_put_text(host, "cpu", uname(&system) == 0 ? system.machine : NULL);
    cJSON_AddNumberToObject(host, "cores", environment_processors());
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        results_put_number(host, "ram_bytes", (double)pages * (double)page);
    else
        cJSON_AddNullToObject(host, "ram_bytes");
    add_operating_system(host);
    return host;
}

static cJSON *environment_variables(void) {
    cJSON *const variables = cJSON_CreateObject();
    const size_t count = sizeof recorded_variables / sizeof recorded_variables[0];
    for (size_t i = 0; i < count; i++) {
        const char *const value = getenv(recorded_variables[i]);
        if (value == NULL)
            continue;
        const char *const slash = strrchr(value, '/');
        cJSON_AddStringToObject(variables, recorded_variables[i],
                                slash == NULL ? value : slash + 1);
    }
    return variables;
}

static void put_line(cJSON *object, const char *key, const char *path) {
    char text[256];
    results_put_text(object, key, environment_read_line(path, text, sizeof text) ? text : NULL);
}

static void add_processor(cJSON *settings) {
    char text[256];
    const char *const cpu = "/proc/cpuinfo";
    results_put_text(settings, "microcode",
                     find_value(cpu, "microcode", ':', text, sizeof text) ? text : NULL);
    results_put_number(settings, "cpu_mhz_now",
                       find_value(cpu, "cpu MHz", ':', text, sizeof text) ? strtod(text, NULL)
                                                                          : NAN);
    const char *const most = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
    results_put_number(settings, "cpu_mhz_most",
                       environment_read_line(most, text, sizeof text) ? strtod(text, NULL) / 1000
                                                                      : NAN);
    put_line(settings, "smt", "/sys/devices/system/cpu/smt/active");
    put_line(settings, "numa_nodes", "/sys/devices/system/node/online");
    results_put_number(settings, "threads", environment_processors());
}

/* The files by which the OpenCL loader finds drivers. */
static void add_drivers(cJSON *settings) {
    DIR *const folder = opendir("/etc/OpenCL/vendors");
    cJSON *const files = cJSON_AddArrayToObject(settings, "icd_files");
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strstr(entry->d_name, ".icd") != NULL)
            cJSON_AddItemToArray(files, cJSON_CreateString(entry->d_name));
    }
    if (folder != NULL)
        closedir(folder);
}

cJSON *environment_settings(void) {
    struct utsname system;
    cJSON *const settings = cJSON_CreateObject();
    results_put_text(settings, "kernel", uname(&system) == 0 ? system.release : NULL);
    results_put_text(settings, "machine", uname(&system) == 0 ? system.machine : NULL);
    put_line(settings, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    put_line(settings, "transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled");
    put_line(settings, "load_average", "/proc/loadavg");
    if (environment_cache_bytes() > 0)
        results_put_number(settings, "cpu_cache_bytes", (double)environment_cache_bytes());
    else
        cJSON_AddNullToObject(settings, "cpu_cache_bytes");
    add_processor(settings);
    add_drivers(settings);
    cJSON_AddItemToObject(settings, "variables", environment_variables());
    return settings;
}

long long environment_available_bytes(void) {
    long long kilobytes = 0;
    char line[128];
    FILE *const file = fopen("/proc/meminfo", "r");
    while (file != NULL && kilobytes == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kilobytes = strtoll(line + 13, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return kilobytes > 0 ? 1024 * kilobytes : 0;
}
