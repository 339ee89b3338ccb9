#include "bench/record/environment_machine.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#include "bench/record/environment_record.h"

enum {
    MAX_PATH_LENGTH = 512
};

/* ---- the host of a virtual machine ----------------------------------------------------------------- */

#if defined __x86_64__

enum {
    LEAF_FEATURES = 1,
    LEAF_HYPERVISOR = 0x40000000
};
#define HYPERVISOR_PRESENT (1U << 31) /* of ecx */

int environment_hypervisor(char *text, size_t size) {
    unsigned eax = 0;
    unsigned words[3] = {0};
    unsigned ecx = 0;
    unsigned edx = 0;
    unsigned ebx = 0;
    char name[sizeof words + 1] = "";
    if (__get_cpuid(LEAF_FEATURES, &eax, &ebx, &ecx, &edx) == 0)
        return 0;
    if ((ecx & HYPERVISOR_PRESENT) == 0) {
        snprintf(text, size, "none");
        return 1;
    }
    __cpuid(LEAF_HYPERVISOR, eax, words[0], words[1], words[2]);
    memcpy(name, words, sizeof words);
    for (size_t i = 0; name[i] != '\0'; i++)
        name[i] = isprint((unsigned char)name[i]) ? name[i] : '?';
    snprintf(text, size, "%s", name[0] == '\0' ? "without a name" : name);
    return 1;
}

#else

int environment_hypervisor(char *text, size_t size) {
    return environment_read_line("/sys/hypervisor/type", text, size);
}

#endif

/* ---- clocks ---------------------------------------------------------------------------------------- */

int environment_boost(const char *folder, char *text, size_t size) {
    static const struct {
        const char *file;
        char on; /* what it holds then */
    } files[] = {{"cpufreq/boost", '1'}, {"intel_pstate/no_turbo", '0'}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[MAX_PATH_LENGTH];
        char line[16];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].file);
        if (!environment_read_line(path, line, sizeof line))
            continue;
        snprintf(text, size, "%s", line[0] == files[i].on ? "on" : "off");
        return 1;
    }
    return 0;
}

/* ---- drivers --------------------------------------------------------------------------------------- */

/* Of the loader's own extension, which both loaders in use have. */
typedef int (*loader_info)(int what, size_t size, void *value, size_t *size_told);
typedef void *(*extension_address)(const char *name);

enum {
    LOADER_VERSION = 2,
    LOADER_NAME = 3
};

/* dlsym gives a pointer to an object, which has to become one to a function. */
static extension_address find_lookup(void *library) {
    extension_address lookup = NULL;
    *(void **)&lookup = dlsym(library, "clGetExtensionFunctionAddress");
    return lookup;
}

int environment_opencl_loader(char *text, size_t size) {
    char name[64] = "";
    char version[64] = "";
    loader_info ask = NULL;
    void *const library = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return 0;
    const extension_address lookup = find_lookup(library);
    if (lookup != NULL)
        *(void **)&ask = lookup("clGetICDLoaderInfoOCLICD");
    const int known = ask != NULL && ask(LOADER_NAME, sizeof name - 1, name, NULL) == 0 &&
                      ask(LOADER_VERSION, sizeof version - 1, version, NULL) == 0;
    if (known)
        snprintf(text, size, "%s %s", name, version);
    dlclose(library);
    return known;
}

/* ---- the kernel ------------------------------------------------------------------------------------ */

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int environment_mitigations(const char *folder, char *text, size_t size) {
    struct dirent **files = NULL;
    const int count = scandir(folder, &files, is_visible, alphasort);
    size_t length = 0;
    int told = 0;
    if (count < 0)
        return 0;
    snprintf(text, size, "none needed");
    for (int i = 0; i < count; i++) {
        char path[MAX_PATH_LENGTH];
        char line[256];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
        const int is_told = environment_read_line(path, line, sizeof line);
        told += is_told;
        if (is_told && strcmp(line, "Not affected") != 0 && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s: %s",
                                       length == 0 ? "" : "; ", files[i]->d_name, line);
        free(files[i]);
    }
    free(files);
    return told > 0;
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
