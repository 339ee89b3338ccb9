/*
 * --device selects the devices of a command. A selector is a decimal index or a part of
 * "backend/driver-family/name", case-insensitive.
 */
#ifndef TANDEM_COMMON_COMMAND_DEVICE_PICK_H
#define TANDEM_COMMON_COMMAND_DEVICE_PICK_H

#include <tandem/device.h>

/*
 * Returns 1 if `selector` matches device `index`, whose own selector may be NULL. NULL matches
 * every device; the empty string matches none.
 */
int device_matches(const char *selector, int index, const char *own);

/*
 * Creates a context and finds the first device that `selector` matches (NULL: device 0). On success
 * it returns 0 and fills *context, which the caller owns, *index and *info. On failure it prints
 * the reason and the available devices on stderr, and returns CLI_EXIT_NO_DEVICE or
 * CLI_EXIT_FAILED.
 */
int device_pick(const char *command, const char *selector, tdm_context **context, int *index,
                tdm_device_info *info);

/*
 * Returns the next device at or after `start` that `selector` matches, or -1 at the end. Commands
 * that run on every device use it. `info` may be NULL.
 */
int device_next(const tdm_context *context, const char *selector, int start, tdm_device_info *info);

/* Prints on stderr that nothing matches, and what exists. Returns CLI_EXIT_NO_DEVICE. */
int device_refuse(const char *command, const char *selector, const tdm_context *context);

/* Prints on stderr what failed, with the library's detail text. Returns CLI_EXIT_FAILED. */
int device_report_failure(const char *command, const char *what, tdm_status status);

#endif
