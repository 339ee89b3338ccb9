/*
 * Reference counts of devices. The objects of a device hold references to it, and it holds these
 * objects. Therefore only device.c, which sets `destroy`, knows what the last release destroys.
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
