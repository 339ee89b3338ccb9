/* Built kernels of a device, at most one per row of the variant table. */
#include "api/device/core.h"

static tdm_status build(tdm_device *device, const tdm_variant *variant, tdm_kernel *kernel) {
    const tdm_embedded_source *const text = tdm_embedded_source_find(variant->source);
    const tdm_kernel_image *const image = tdm_kernel_image_find(variant->source);
    if (!text)
        return tdm_fail(TDM_INTERNAL, "%s: the kernel source %s is not in the library",
                        variant->name, variant->source);
    const tdm_prebuilt prebuilt = {.data = image ? image->data : NULL,
                                   .bytes = image ? (size_t)(image->end - image->data) : 0,
                                   .stand_in = image && image->stand_in};
    const tdm_kernel_source source = {.entry = variant->name,
                                      .text = text->text,
                                      .text_bytes = text->length,
                                      .defines = variant->defines,
                                      .prebuilt = image ? &prebuilt : NULL};
    kernel->variant = variant;
    TDM_TRY(device->api->kernel_build(device->native, &source, &kernel->native));
    const tdm_status status = device->api->kernel_limits(kernel->native, &kernel->limits);
    if (status != TDM_OK)
        device->api->kernel_release(kernel->native);
    return status;
}

static tdm_kernel *built_kernel(const tdm_device *device, const tdm_variant *variant) {
    return atomic_load(&device->kernels[variant - tdm_variants]);
}

tdm_status tdm_stream_kernel(tdm_stream *stream, const char *operation, const tdm_variant *variant,
                             tdm_kernel **kernel) {
    *kernel = built_kernel(stream->device, variant);
    if (!*kernel && tdm_stream_is_recording(stream))
        return tdm_fail(TDM_BAD_STATE,
                        "%s: the stream is recording and kernel %s is not built yet: run the "
                        "operation once before recording",
                        operation, variant->name);
    return *kernel ? TDM_OK : tdm_device_kernel(stream->device, variant, kernel);
}

tdm_status tdm_device_kernel(tdm_device *device, const tdm_variant *variant, tdm_kernel **kernel) {
    *kernel = built_kernel(device, variant);
    if (*kernel)
        return TDM_OK;
    tdm_status status = TDM_OK;
    // One build at a time per device: the second caller finds the first one's kernel.
    pthread_mutex_lock(&device->kernels_lock);
    *kernel = built_kernel(device, variant);
    if (!*kernel) {
        tdm_kernel *const built = tdm_host_calloc(1, sizeof *built);
        status = built ? build(device, variant, built)
                       : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", variant->name);
        if (status == TDM_OK) {
            atomic_store(&device->kernels[variant - tdm_variants], built);
            *kernel = built;
        } else {
            tdm_host_free(built);
        }
    }
    pthread_mutex_unlock(&device->kernels_lock);
    return status;
}

uint32_t tdm_kernel_resident_groups(const tdm_device *device, tdm_kernel *kernel,
                                    uint32_t group_items) {
    uint32_t groups = 0, known = atomic_load(&kernel->resident);
    if (known != 0 || !device->api->kernel_occupancy)
        return known != 0 ? known - 1 : 0;
    if (device->api->kernel_occupancy(kernel->native, group_items, 0, &groups) != TDM_OK)
        return 0;
    atomic_compare_exchange_strong(&kernel->resident, &known, groups + 1);
    return known != 0 ? known - 1 : groups;
}

uint32_t tdm_kernel_resident_clusters(const tdm_device *device, tdm_kernel *kernel,
                                      uint32_t cluster, uint32_t group_items,
                                      uint32_t local_bytes) {
    uint32_t clusters = 0, known = atomic_load(&kernel->clusters);
    if (known != 0)
        return known - 1;
    const tdm_status status =
        device->api->kernel_clusters
            ? device->api->kernel_clusters(kernel->native, cluster, group_items, local_bytes,
                                           &clusters)
            : TDM_UNSUPPORTED;
    if (status == TDM_UNSUPPORTED)
        clusters = device->info.compute_units / cluster;
    else if (status != TDM_OK)
        return 0;
    atomic_compare_exchange_strong(&kernel->clusters, &known, clusters + 1);
    return known != 0 ? known - 1 : clusters;
}
