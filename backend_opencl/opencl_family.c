/* Driver families: their names, and facts about a driver that it does not report itself. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend_opencl/opencl_internal.h"

/*
 * The first row with a matching needle counts. A needle is searched for in the platform's name,
 * vendor and version, ignoring case. PoCL stands before the CPU vendors and clvk before the GPU
 * vendors, because their strings contain vendor names. Two families set keeps_programs. PoCL has
 * its own cache, and compiles everything a second time if a binary is requested. In ARM's drivers,
 * clCreateProgramWithBinary is known to crash.
 */
static const tdm_opencl_family families[] = {
    {.needle = "oclgrind", .name = "oclgrind", .memory_checker = true, .runs_in_calls = true},
    {.needle = "portable computing language",
     .name = "pocl",
     .no_device_hint = "PoCL needs a cache folder it can write: set HOME or POCL_CACHE_DIR",
     .host_cores = true,
     .one_target_since = 70,
     .keeps_programs = true},
    {.needle = "rusticl",
     .name = "rusticl",
     .no_device_hint =
         "set RUSTICL_ENABLE=llvmpipe to enable its software device, or to the driver of a GPU",
     .one_lane_per_item = true,
     .short_loops = true,
     .late_markers = true},
    {.needle = "clover", .name = "clover"},
    {.needle = "clvk", .name = "clvk"},
    {.needle = "vc4cl", .name = "vc4cl"},
    {.needle = "nvidia", .name = "nvidia"},
    {.needle = "qualcomm", .name = "qualcomm"},
    {.needle = "imagination", .name = "imagination"},
    {.needle = "powervr", .name = "imagination"},
    {.needle = "intel", .name = "intel", .host_cores = true},
    {.needle = "advanced micro devices", .name = "amd", .host_cores = true},
    {.needle = "amd accelerated", .name = "amd", .host_cores = true},
    {.needle = "arm platform", .name = "arm", .keeps_programs = true},
    {.needle = "apple", .name = "apple", .host_cores = true},
};

static const tdm_opencl_family unknown_family = {.name = ""};

static bool contains(const char *text, const char *needle) {
    const size_t length = strlen(needle);
    for (; *text; text++)
        if (strncasecmp(text, needle, length) == 0)
            return true;
    return false;
}

int tdm_opencl_family_version(const char *platform_version, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = platform_version; *at; at++) {
        if (strncasecmp(at, name, length) != 0)
            continue;
        char *end;
        const long major = strtol(at + length, &end, 10);
        const long minor = *end == '.' ? strtol(end + 1, NULL, 10) : -1;
        if (major > 0 && major < 1000 && minor >= 0)
            return (int)(10 * major + (minor < 9 ? minor : 9));
    }
    return 0;
}

const tdm_opencl_family *tdm_opencl_family_find(const char *platform_name, const char *vendor,
                                                const char *version) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *const needle = families[i].needle;
        if (contains(platform_name, needle) || contains(vendor, needle) ||
            contains(version, needle))
            return &families[i];
    }
    return &unknown_family;
}

void tdm_opencl_slug(const char *text, char *slug, size_t slug_bytes) {
    size_t used = 0;
    bool gap = false;
    for (; *text && used + 2 < slug_bytes; text++) {
        const unsigned char c = (unsigned char)*text;
        if (isalnum(c)) {
            if (gap && used > 0)
                slug[used++] = '-';
            slug[used++] = (char)tolower(c);
        }
        gap = !isalnum(c);
    }
    slug[used] = '\0';
}
