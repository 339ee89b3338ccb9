/*
 * --device: which devices a command runs on. A selector is a decimal index or a part of
 * "backend/driver-family/name", case-insensitive.
 */
#ifndef TANDEM_COMMON_COMMAND_DEVICE_PICK_H
#define TANDEM_COMMON_COMMAND_DEVICE_PICK_H

#include <tandem/device.h>

/* Whether `selector` names device `index`, whose own selector may be NULL. NULL matches every device, the empty text none. */
int device_matches(const char *selector, int index, const char *own);

/*
 * Create a context and find the first device that `selector` matches (NULL: device 0). On success
 * 0, *context is the caller's, *index and *info are filled in. Otherwise the refusal, with the list
 * of what there is, stands on stderr and the exit code comes back: CLI_EXIT_NO_DEVICE or
 * CLI_EXIT_FAILED.
 */
int device_pick(const char *command, const char *selector, tdm_context **context, int *index,
                tdm_device_info *info);

/*
 * The next device at or after `start` that `selector` matches, -1 at the end: for commands that run
 * on every device found. `info` may be NULL.
 */
int device_next(const tdm_context *context, const char *selector, int start, tdm_device_info *info);

/*
 * Say on stderr that nothing matches, with the devices and the notes of the context. Returns
 * CLI_EXIT_NO_DEVICE.
 */
int device_refuse(const char *command, const char *selector, const tdm_context *context);

/* Say on stderr what failed, with the library's detail text. Returns CLI_EXIT_FAILED. */
int device_report_failure(const char *command, const char *what, tdm_status status);

#endif
