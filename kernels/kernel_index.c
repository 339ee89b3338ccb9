#include "kernels/kernel_index.h"
#include "kernels/prebuilt.h"

#include <string.h>

#include <tandem/device.h>

const tdm_variant tdm_variants[] = {
#define TDM_VARIANT(name, op, source, defines, requires, target, ...)                              \
    {#name, TDM_OP_##op, source, defines, (uint32_t)(requires), target, {__VA_ARGS__}},
#include "kernel_variants.def" /* from kernels/FOLDER/NAME_variants.cmake */
#undef TDM_VARIANT
};

const int tdm_variant_count = (int)(sizeof tdm_variants / sizeof tdm_variants[0]);

const tdm_shipped_tuning tdm_shipped_tunings[] = {
#define TDM_NOT_MEASURED 0
#define TDM_TUNING(device, op, a, b, layout, shape, choice, ns)                                    \
    {device, TDM_OP_##op, a, b, layout, shape, choice, ns},
#include "kernels/tuning.def"
#undef TDM_TUNING
#undef TDM_NOT_MEASURED
};

const int tdm_shipped_tuning_count =
    (int)(sizeof tdm_shipped_tunings / sizeof tdm_shipped_tunings[0]);

const tdm_variant *tdm_variant_find(const char *name) {
    for (int i = 0; i < tdm_variant_count; i++)
        if (strcmp(tdm_variants[i].name, name) == 0)
            return &tdm_variants[i];
    return NULL;
}

const tdm_embedded_source *tdm_embedded_source_find(const char *file) {
    for (size_t i = 0; i < tdm_embedded_source_count; i++)
        if (strcmp(tdm_embedded_sources[i].file, file) == 0)
            return &tdm_embedded_sources[i];
    return NULL;
}

const tdm_kernel_image *tdm_kernel_image_find(const char *source) {
    for (int i = 0; i < tdm_kernel_image_count; i++)
        if (strcmp(tdm_kernel_images[i].source, source) == 0)
            return &tdm_kernel_images[i];
    return NULL;
}

const char *tdm_prebuilt_architectures(void) {
    return tdm_kernel_image_architectures;
}

int tdm_prebuilt_version(void) {
    return tdm_kernel_image_version;
}
