/*
 * The counted references to a device. What the last one destroys is known to device.c alone, which sets `destroy`: the objects of
 * a device hold it, and it holds them.
 */
#include "api/device/core.h"
#include "api/device/device_internal.h"

void tdm_device_retain(tdm_device *device) {
    tdm_context_retain(device->context);
    pthread_mutex_lock(&device->context->lock);
    device->references++;
    pthread_mutex_unlock(&device->context->lock);
}

void tdm_device_release(tdm_device *device) {
    if (!device)
        return;
    tdm_context *const context = device->context;
    pthread_mutex_lock(&context->lock);
    if (--device->references == 0) {
        device->slot->open = NULL;
        device->destroy(device);
    }
    pthread_mutex_unlock(&context->lock);
    tdm_context_release(context);
}
