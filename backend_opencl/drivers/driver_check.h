/*
 * Finds drivers that would take the process down. A helper process tries them; harmful ones are
 * passed over and named.
 *
 * Before a library is opened here, and before its platforms are queried, a helper process does this
 * under a time limit. If that fails with the ICD loader, its driver files (*.icd) are tried one
 * after another, and the loader is shown only the good ones. Verdicts are kept for a day in the
 * directory of the program cache, and for the life of the process.
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
    TDM_DRIVER_HANG,
    TDM_DRIVER_PRINTS,
    TDM_DRIVER_CLOSES /* number: the standard descriptor */
} tdm_driver_outcome_kind;

typedef struct tdm_driver_outcome {
    uint8_t kind;
    uint8_t number;
} tdm_driver_outcome;

typedef enum tdm_driver_depth {
    TDM_DRIVER_LOAD,     /* dlopen only */
    TDM_DRIVER_PLATFORMS /* dlopen, and listing platforms and devices */
} tdm_driver_depth;

/* The time limit of one trial. Tests shorten it. */
extern int tdm_driver_limit_ms;

/* True if the driver may be opened in this process. */
bool tdm_driver_is_usable(tdm_driver_outcome outcome);

/* Opens the library in a helper process with this environment. Blocking. Thread-safe. */
tdm_driver_outcome tdm_driver_try(const char *library, tdm_driver_depth depth,
                                  char *const *environment);

/* Writes the outcome into `text`, as in "it crashed (signal 11)", and returns `text`. */
const char *tdm_driver_outcome_text(tdm_driver_outcome outcome, char *text, size_t bytes);

/* ---- driver files (driver_files.c) ----------------------------------------------------------- */

#define TDM_DRIVER_FILES 32
#define TDM_DRIVER_TEXT 512

/* A driver as the ICD loader finds it: an *.icd file, or a library that the environment names. */
typedef struct tdm_driver_file {
    char path[TDM_DRIVER_TEXT];
    char library[TDM_DRIVER_TEXT]; /* from the *.icd file; equal to `path` if there is none */
} tdm_driver_file;

typedef struct tdm_driver_files {
    tdm_driver_file files[TDM_DRIVER_FILES];
    int count;
} tdm_driver_files;

/* Lists the files that the ICD loader would read, by name; at most TDM_DRIVER_FILES. */
void tdm_driver_files_list(tdm_driver_files *list);

/* An environment in which the ICD loader finds only the chosen files, in a temporary directory. */
typedef struct tdm_driver_view {
    char folder[TDM_DRIVER_TEXT];
    char **environment;
} tdm_driver_view;

/* Returns false, with a log message, if no directory can be created. */
bool tdm_driver_view_open(tdm_driver_view *view, const tdm_driver_files *list, uint32_t chosen);
/*
 * Removes the directory. It also frees the environment unless `keep` is set: another thread may
 * still read it if it was the environment of this process.
 */
void tdm_driver_view_close(tdm_driver_view *view, bool keep);

/* ---- verdicts (driver_check.c): one thread at a time ----------------------------------------- */

/*
 * Checks that dlopen may be called on the library. Returns TDM_NO_DEVICE otherwise, with the reason
 * in the detail.
 */
tdm_status tdm_driver_check_load(const char *library);

/*
 * Checks that the platforms of the library, which is open, may be queried. The notes (may be NULL)
 * and the log name the drivers that are passed over. When this returns, the ICD loader has read the
 * others. Returns TDM_NO_DEVICE, with the reason in the detail, if the library itself is broken.
 */
tdm_status tdm_driver_check_platforms(const char *library, const tdm_opencl_api *api,
                                      tdm_notes *notes);

#endif
