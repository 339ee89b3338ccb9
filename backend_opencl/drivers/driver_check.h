/*
 * Drivers that would take the process down: found by a helper process, passed over, and named.
 *
 * Before a library is opened here, and before it is asked for its platforms, a helper process does
 * the same under a time limit. Where that fails with the ICD loader, its driver files (*.icd) are
 * tried one after the other, and the loader is shown the good ones only. Verdicts are kept for a
 * day in the folder of the program cache, and for the life of the process.
 * docs/decisions/drivers-in-a-helper-process.md says why it is made so.
 */
#ifndef TANDEM_BACKEND_OPENCL_DRIVERS_DRIVER_CHECK_H
#define TANDEM_BACKEND_OPENCL_DRIVERS_DRIVER_CHECK_H

#include "backend_opencl/opencl_api.h"

/* ---- trials (driver_process.c) --------------------------------------------------------------- */

typedef enum tdm_driver_outcome_kind {
    TDM_DRIVER_FINE,
    TDM_DRIVER_UNTRIED, /* no helper process could be started; nothing is known */
    TDM_DRIVER_SIGNAL,  /* number: of the signal */
    TDM_DRIVER_EXIT,    /* number: the exit status */
    TDM_DRIVER_ENDED,   /* the process ended, and somebody else took its status */
    TDM_DRIVER_HANG,
    TDM_DRIVER_PRINTS,
    TDM_DRIVER_CLOSES /* number: the standard descriptor */
} tdm_driver_outcome_kind;

typedef struct tdm_driver_outcome {
    uint8_t kind;
    uint8_t number;
} tdm_driver_outcome;

typedef enum tdm_driver_depth {
    TDM_DRIVER_LOAD,     /* dlopen alone */
    TDM_DRIVER_PLATFORMS /* and platforms and devices */
} tdm_driver_depth;

/* How long one trial may take; tests shorten it. */
extern int tdm_driver_limit_ms;

/* May the driver be opened in this process? */
bool tdm_driver_is_usable(tdm_driver_outcome outcome);

/* Open the library in a helper process that has this environment. Blocking. Thread-safe. */
tdm_driver_outcome tdm_driver_try(const char *library, tdm_driver_depth depth,
                                  char *const *environment);

/* "it crashed (signal 11)" written into `text`, which is returned. */
const char *tdm_driver_outcome_text(tdm_driver_outcome outcome, char *text, size_t bytes);

/* ---- driver files (driver_files.c) ----------------------------------------------------------- */

#define TDM_DRIVER_FILES 32
#define TDM_DRIVER_TEXT 512

/* A driver as the ICD loader finds it: a file *.icd, or a library that the environment names. */
typedef struct tdm_driver_file {
    char path[TDM_DRIVER_TEXT];
    char library[TDM_DRIVER_TEXT]; /* the text of the file; the same where no file names it */
} tdm_driver_file;

typedef struct tdm_driver_files {
    tdm_driver_file files[TDM_DRIVER_FILES];
    int count;
} tdm_driver_files;

/* The files that the ICD loader would read, by name; at most TDM_DRIVER_FILES. */
void tdm_driver_files_list(tdm_driver_files *list);

/* An environment with which the ICD loader finds the chosen files alone, in a temporary folder. */
typedef struct tdm_driver_view {
    char folder[TDM_DRIVER_TEXT];
    char **environment;
} tdm_driver_view;

/* False, with a message in the log, when no folder can be made. */
bool tdm_driver_view_open(tdm_driver_view *view, const tdm_driver_files *list, uint32_t chosen);
/*
 * Remove the folder. The environment is released too unless `keep` is set: another thread may still
 * read what was the environment of this process.
 */
void tdm_driver_view_close(tdm_driver_view *view, bool keep);

/* ---- verdicts (driver_check.c): one thread at a time ----------------------------------------- */

/*
 * Check that dlopen may be called with the library; TDM_NO_DEVICE with the reason in the detail
 * when not.
 */
tdm_status tdm_driver_check_load(const char *library);

/*
 * Check that the library, which is open, may be asked for its platforms. Drivers that are passed
 * over are named in the notes (may be NULL) and in the log; the ICD loader has read the others when
 * this returns. TDM_NO_DEVICE with the reason in the detail when the library itself is broken.
 */
tdm_status tdm_driver_check_platforms(const char *library, const tdm_opencl_api *api,
                                      tdm_notes *notes);

#endif
