/*
 * Decides which of the library's images a driver can load on a device.
 *
 * A driver loads machine code from a toolkit of its own major CUDA version or of an older one. It
 * loads PTX only from a toolkit that is no newer than itself. NVIDIA's "CUDA Compatibility" calls
 * the first rule minor version compatibility, and excludes PTX from it.
 */
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/cuda_internal.h"

typedef enum code_kinds {
    NO_CODE,
    MACHINE_CODE,
    ALL_CODE
} code_kinds;

static code_kinds kinds_taken(const tdm_cuda_images *images, int driver) {
    if (driver >= images->version)
        return ALL_CODE;
    return driver / 1000 == images->version / 1000 ? MACHINE_CODE : NO_CODE;
}

/*
 * True for systems on a chip: Orin (87) and Thor, which is 101 in toolkits before 13.0 and 110 in
 * later ones.
 */
static bool is_embedded(int architecture) {
    static const int embedded[] = {87, 101, 110};
    for (size_t i = 0; i < sizeof embedded / sizeof embedded[0]; i++)
        if (architecture == embedded[i])
            return true;
    return false;
}

/*
 * True if machine code runs on the device. It runs on devices of the same major compute capability
 * that are not older. The "CUDA C++ Programming Guide" (Binary Compatibility) excludes systems on a
 * chip: they run only their own code, and nothing else runs it.
 */
static bool code_runs(int built, int device) {
    if (is_embedded(built) || is_embedded(device))
        return built == device;
    return built / 10 == device / 10;
}

/*
 * True if the device can run one image of the list. Machine code must fit the device; PTX runs on
 * every device that is not older.
 */
static bool image_reaches(const char *image, code_kinds taken, int device, int least) {
    char *rest;
    const long built = strtol(image, &rest, 10);
    const bool exact = *rest == 'a'; // for exactly one architecture
    rest += strspn(rest, "af");
    const bool ptx = strncmp(rest, "-ptx", 4) == 0;
    if (built < least || built > device || (exact && built != device))
        return false;
    return ptx ? taken == ALL_CODE : code_runs((int)built, device);
}

bool tdm_cuda_images_reach(const tdm_cuda_images *images, int driver, int device, int least) {
    const code_kinds taken = kinds_taken(images, driver);
    if (images->architectures[0] == '\0')
        return device >= least;
    if (taken == NO_CODE)
        return false;
    for (const char *image = images->architectures; image; image = strchr(image, ';')) {
        image += *image == ';';
        if (image_reaches(image, taken, device, least))
            return true;
    }
    return false;
}

bool tdm_cuda_images_hold(const tdm_cuda_images *images, int driver, const char *wanted) {
    const size_t length = strlen(wanted);
    if (images->architectures[0] == '\0')
        return true;
    for (const char *image = images->architectures; image; image = strchr(image, ';')) {
        image += *image == ';';
        if (strcspn(image, ";") == length && strncmp(image, wanted, length) == 0)
            return kinds_taken(images, driver) != NO_CODE;
    }
    return false;
}

/* Arguments for "%d.%d", as in "13.0". */
#define VERSION(number) (number) / 1000, (number) % 1000 / 10

tdm_status tdm_cuda_images_check(const tdm_cuda_images *images, int driver, int device) {
    const int version = images->version;
    if (tdm_cuda_images_reach(images, driver, device, 0))
        return TDM_OK;
    if (kinds_taken(images, driver) == NO_CODE)
        return tdm_fail(TDM_UNSUPPORTED,
                        "the driver supports CUDA %d.%d, the library's kernels were built with "
                        "%d.%d: a driver that supports CUDA %d.0 or newer is needed",
                        VERSION(driver), VERSION(version), version / 1000);
    if (kinds_taken(images, driver) == MACHINE_CODE)
        return tdm_fail(
            TDM_UNSUPPORTED,
            "the driver supports CUDA %d.%d, the library's kernels were built with %d.%d: only "
            "their machine code can be loaded, and %s contains none for compute capability %d.%d; "
            "a driver that supports CUDA %d.%d can compile their PTX",
            VERSION(driver), VERSION(version), images->architectures, device / 10, device % 10,
            VERSION(version));
    return tdm_fail(TDM_UNSUPPORTED,
                    "the library's kernels are for %s, none for compute capability %d.%d",
                    images->architectures, device / 10, device % 10);
}

bool tdm_cuda_images_lack_ptx(const tdm_cuda_images *images, int driver) {
    return images->architectures[0] != '\0' && strstr(images->architectures, "-ptx") &&
           kinds_taken(images, driver) == MACHINE_CODE;
}
