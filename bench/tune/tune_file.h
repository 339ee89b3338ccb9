/* The user's tuning file as `tandem tune` keeps it: rows are added or replaced, everything else in it stays. */
#ifndef TANDEM_BENCH_TUNE_TUNE_FILE_H
#define TANDEM_BENCH_TUNE_TUNE_FILE_H

#include "api/tuning/tuning.h"

typedef struct tune_file tune_file;

/*
 * Open a file for adding rows; it need not exist. NULL with the reason on stderr when it exists and is not what the library
 * would read, or cannot be written beside it.
 */
tune_file *tune_file_open(const char *command, const char *path);

/* Does it have a measured row with the device, operation, types and shape of this one? */
int tune_file_has(const tune_file *file, const tdm_tuning_row *row);

/*
 * Add the row in place of the ones it repeats, and write the file: whole, to a temporary file that takes its name once it is
 * on disk. What another process wrote meanwhile is kept. 0, or -1 with the reason on stderr.
 */
int tune_file_put(tune_file *file, const tdm_tuning_row *row);

void tune_file_close(tune_file *file);

#endif
