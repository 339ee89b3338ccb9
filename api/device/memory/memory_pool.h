/* Private pools of a device, and what it does when memory is short. */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_POOL_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_POOL_H

#include "api/device/core.h"

#include <tandem/memory_control.h>

/* With the device's last reference: every block of every pool is free by now. */
void tdm_device_pools_close(tdm_device *device);

/* The pool that the calling thread allocates from on this device, or NULL: the device's own. */
tdm_memory_pool *tdm_memory_pool_current(const tdm_device *device);

/* As tdm_pool_alloc from a private pool, or the device's own for NULL. */
tdm_status tdm_device_alloc(tdm_device *device, tdm_memory_pool *pool, size_t bytes,
                            uint32_t stream, tdm_block **block);

/* A reference of a buffer's; NULL is accepted. */
void tdm_memory_pool_retain(tdm_memory_pool *pool);
void tdm_memory_pool_release(tdm_memory_pool *pool);

tdm_device *tdm_memory_pool_device(const tdm_memory_pool *pool);
/* The pool's blocks. */
tdm_pool *tdm_memory_pool_of(const tdm_memory_pool *pool);

/* Destroy closed pools whose last block was freed since. Costs one load where there is none. */
void tdm_device_reap_pools(tdm_device *device);

/* Trim all pools of the device: the bytes that went back to the driver. */
uint64_t tdm_device_trim_pools(tdm_device *device);

/* Bytes of live blocks in all pools of the device. */
uint64_t tdm_device_bytes_in_use(tdm_device *device);

/* What tdm_device_trim_pools would give back but for the pool `except`. Nothing is changed. */
uint64_t tdm_device_trimmable(tdm_device *device, const tdm_pool *except);

/* upstream.relieve of the device's pools: trims all of them, then asks the user's callbacks. */
bool tdm_device_relieve(void *user, uint64_t bytes, int attempt);
/* +1, later -1: meanwhile allocations of the calling thread ask no callbacks, for it holds a lock. */
void tdm_memory_callbacks_hold(int change);
void tdm_device_callbacks_close(tdm_device *device);

#endif
