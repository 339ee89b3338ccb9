/*
 * Finds drivers that would crash or hang the process. Harmful drivers are skipped and reported.
 *
 * Before this process opens a library, and again before it queries the platforms, a helper process
 * tries the same under a time limit. If the ICD loader fails there, the driver files (*.icd) are
 * tried one after another. The loader of this process then gets only the files that work. Verdicts
 * are kept for a day in the folder of the program cache, and in memory until the process ends.
 * docs/decisions/drivers-in-a-helper-process.md gives the reasons.
 */
#ifndef TANDEM_BACKEND_OPENCL_DRIVERS_DRIVER_CHECK_H
#define TANDEM_BACKEND_OPENCL_DRIVERS_DRIVER_CHECK_H

#include "backend_opencl/opencl_api.h"

/* ---- trials (driver_process.c) --------------------------------------------------------------- */

typedef enum tdm_driver_outcome_kind {
    TDM_DRIVER_FINE,
    TDM_DRIVER_UNTRIED, /* no helper process could be started; nothing is known */
    TDM_DRIVER_SIGNAL,  /* number: the signal */
    TDM_DRIVER_EXIT,    /* number: the exit status */
    TDM_DRIVER_ENDED,   /* the process ended, and its status was collected elsewhere */
    TDM_DRIVER_HANG,    /* the helper did not answer within the time limit */
    TDM_DRIVER_PRINTS,  /* the driver wrote to standard output */
    TDM_DRIVER_CLOSES   /* the driver closed a standard stream; number: its descriptor, 0 to 2 */
} tdm_driver_outcome_kind;

typedef struct tdm_driver_outcome {
    uint8_t kind;
    uint8_t number;
} tdm_driver_outcome;

typedef enum tdm_driver_depth {
    TDM_DRIVER_LOAD,     /* dlopen only */
    TDM_DRIVER_PLATFORMS /* dlopen, then a list of platforms and devices */
} tdm_driver_depth;

/* This is the time limit of one trial. Tests shorten it. */
extern int tdm_driver_limit_ms;

/* Returns true if this process may open the driver: the trial succeeded or could not take place. */
bool tdm_driver_is_usable(tdm_driver_outcome outcome);

/* Tries the library in a helper process with this environment. The call blocks and is
 * thread-safe. */
tdm_driver_outcome tdm_driver_try(const char *library, tdm_driver_depth depth,
                                  char *const *environment);

/* Writes a description of the outcome into `text`, e.g. "it crashed (signal 11)". Returns
 * `text`. */
const char *tdm_driver_outcome_text(tdm_driver_outcome outcome, char *text, size_t bytes);

/* ---- driver files (driver_files.c) ----------------------------------------------------------- */

#define TDM_DRIVER_FILES 32
#define TDM_DRIVER_TEXT 512

/* A driver file is an *.icd file that the ICD loader finds, or a library that the environment
 * names. */
typedef struct tdm_driver_file {
    char path[TDM_DRIVER_TEXT];
    char library[TDM_DRIVER_TEXT]; /* the first line of the *.icd file, or `path` itself */
} tdm_driver_file;

typedef struct tdm_driver_files {
    tdm_driver_file files[TDM_DRIVER_FILES];
    int count;
} tdm_driver_files;

/* Lists the driver files that the ICD loader would read, sorted by name within a folder. It lists
 * at most TDM_DRIVER_FILES. */
void tdm_driver_files_list(tdm_driver_files *list);

/* A view is an environment in which the ICD loader finds only chosen drivers. A temporary folder
 * holds an *.icd file for each of them. */
typedef struct tdm_driver_view {
    char folder[TDM_DRIVER_TEXT];
    char **environment;
} tdm_driver_view;

/* Opens a view; bit i of `chosen` selects file i of the list. Returns false, with a log message, if
 * the folder or a file cannot be created. */
bool tdm_driver_view_open(tdm_driver_view *view, const tdm_driver_files *list, uint32_t chosen);
/*
 * Removes the folder of a view, and frees the environment unless `keep` is set. Set `keep` if the
 * environment was that of this process, because another thread may still read it.
 */
void tdm_driver_view_close(tdm_driver_view *view, bool keep);

/* ---- verdicts (driver_check.c): one thread at a time ----------------------------------------- */

/*
 * Checks that this process may call dlopen on the library. Otherwise returns TDM_NO_DEVICE, with
 * the reason in the detail text.
 */
tdm_status tdm_driver_check_load(const char *library);

/*
 * Checks that this process may query the platforms of the open library. Skipped drivers are named
 * in the log and in `notes`, which may be NULL.
 *
 * If drivers are skipped, the ICD loader has read only the other drivers when this returns. Returns
 * TDM_NO_DEVICE, with the reason in the detail text, if the library itself is broken.
 */
tdm_status tdm_driver_check_platforms(const char *library, const tdm_opencl_api *api,
                                      tdm_notes *notes);

#endif
