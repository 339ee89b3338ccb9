/* Private pools of a device, and its response to a shortage of memory. */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_POOL_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_POOL_H

#include "api/device/core.h"

#include <tandem/memory_control.h>

/* Called with the device's last reference, when every block of every pool is free. */
void tdm_device_pools_close(tdm_device *device);

/* Returns the calling thread's current pool on this device. NULL: the device's own pool. */
tdm_memory_pool *tdm_memory_pool_current(const tdm_device *device);

/* Like tdm_pool_alloc, from a private pool; NULL: the device's own pool. */
tdm_status tdm_device_alloc(tdm_device *device, tdm_memory_pool *pool, size_t bytes,
                            uint32_t stream, tdm_block **block);

/* References held by buffers. NULL is accepted. */
void tdm_memory_pool_retain(tdm_memory_pool *pool);
void tdm_memory_pool_release(tdm_memory_pool *pool);

tdm_device *tdm_memory_pool_device(const tdm_memory_pool *pool);
/* Returns the caching pool behind a private pool. */
tdm_pool *tdm_memory_pool_of(const tdm_memory_pool *pool);

/* Destroys closed pools whose last block has been freed. It costs one load if there are none. */
void tdm_device_reap_pools(tdm_device *device);

/* Trims all pools of the device. Returns the number of bytes released to the driver. */
uint64_t tdm_device_trim_pools(tdm_device *device);

/* Bytes of live blocks in all pools of the device. */
uint64_t tdm_device_bytes_in_use(tdm_device *device);

/* Bytes that tdm_device_trim_pools would release, except from `except`. It changes nothing. */
uint64_t tdm_device_trimmable(tdm_device *device, const tdm_pool *except);

/* upstream.relieve of the device's pools: trims all of them, then calls the user's callbacks. */
bool tdm_device_relieve(void *user, uint64_t bytes, int attempt);
/* +1 disables callbacks for the calling thread, which holds a lock; -1 enables them. */
void tdm_memory_callbacks_hold(int change);
void tdm_device_callbacks_close(tdm_device *device);

#endif
