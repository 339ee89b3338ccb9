/*
 * The results file, schema tandem-bench/1:
 *
 * {"schema":"tandem-bench/1","library":{version,…},"created":ISO 8601,"command":[word, …],
 *  "host":{cpu,cores,ram_bytes,os},"device":{…} or null,"environment":{…},"results":[row, …]}
 *
 * "command" is the program's command line (command_line_json). It is null or missing in early
 * files.
 *
 * A row has every member of `bench_result` below under its schema name, and the statistics computed
 * from the raw samples. An unknown number (NaN, infinite, or zero where the comment says so) is
 * null, never NaN and never 0.
 *
 * Files that describe more than one device list all of them in "devices". The file's "device" is
 * then the first one, and each row names its own device in "device".
 */
#ifndef TANDEM_BENCH_RECORD_RESULTS_JSON_H
#define TANDEM_BENCH_RECORD_RESULTS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/device.h>

struct cJSON;

typedef enum result_status {
    RESULT_OK,
    RESULT_SKIPPED,
    RESULT_FAILED
} result_status;

/* The result of comparing the output with the oracle. */
typedef enum result_check {
    RESULT_UNCHECKED,
    RESULT_WRONG,
    RESULT_VERIFIED
} result_check;

typedef struct result_number {
    const char *key; /* NULL ends the list */
    double value;
} result_number;

enum {
    RESULT_MAX_NUMBERS = 24
};

/* One row. Strings are copied; NULL strings are written as null. */
typedef struct bench_result {
    const char *suite;     /* "gemm", "memory", "infer", … */
    const char *case_name; /* "f32 512x512x512 nn" */
    const char *impl;      /* "tandem", or a peer */
    const char *variant;   /* the kernel that ran */
    const char *dtype;
    const char *mode;    /* "pipelined" or "waited" */
    const char *packing; /* "inside", "prepacked" or "none" */
    const char *device;  /* selector, if the file has several devices */
    result_number shape[RESULT_MAX_NUMBERS];
    result_number metrics[RESULT_MAX_NUMBERS]; /* object "metrics", if any; docs/benchmarks.md */
    const double *raw_s;                       /* seconds per operation */
    size_t samples;
    double flops; /* per operation; 0: unknown */
    double bytes; /* per operation; 0: unknown */
    result_check check;
    double max_error; /* NaN: unknown */
    result_status status;
    const char *reason; /* why it was skipped or failed; null if the row is ok */
    const char *note;   /* a remark for users of a row that is ok */
} bench_result;

typedef struct results_document results_document;

/* Creates a document with library, host and environment, or returns NULL if memory is short. */
results_document *results_create(void);

/* Adds a device. The first one is the file's "device". */
void results_add_device(results_document *document, const tdm_device_info *info);

/* Adds a fact to the environment record, e.g. "openblas" → "0.3.21 Haswell". */
void results_add_environment(results_document *document, const char *key, const char *value);

/* Adds a number to the environment record, or null if it is not finite. */
void results_add_environment_number(results_document *document, const char *key, double value);

void results_add(results_document *document, const bench_result *result);

/* Returns the number of RESULT_FAILED rows so far. A command that has any exits with 1. */
int results_failures(const results_document *document);

/*
 * Checks, before any work, that results can be written to `path`. NULL and "-" are accepted. No
 * file is created or changed. Returns 0, or -1 with "<command>: cannot write ..." on stderr.
 */
int results_check_path(const char *command, const char *path);

/*
 * Writes to a file, or to stdout for "-". Returns 0, or -1 with the reason on stderr. Write errors
 * of stdout are reported at the end of the program (standard_output_finish).
 */
int results_write(const results_document *document, const char *command, const char *path);

/*
 * Writes a text in the same way. If a new file can replace `path` (output_file_replaces), the text
 * is written completely or not at all.
 */
int results_write_text(const char *command, const char *path, const char *text, size_t length);

/* Returns 1 if `path` is "-". NULL is accepted. */
int results_is_stdout(const char *path);

/* Returns 1 if writing to `path` would replace the file `other`. Writing to "-" never does. */
int results_would_replace(const char *path, const char *other);

void results_destroy(results_document *document);

/* Parts for files of another schema (tandem devices). The caller owns the results. */
struct cJSON *results_library_json(void);
struct cJSON *results_device_json(const tdm_device_info *info);
/* Returns "cpu", "gpu", … */
const char *results_device_type(tdm_device_type type);
/*
 * Makes the text of a document as valid UTF-8. Invalid bytes of paths and names become U+FFFD. The
 * caller frees it. Returns NULL if memory is short.
 */
char *results_json_text(const struct cJSON *json);
int results_write_json(const struct cJSON *json, const char *command, const char *path);

/* Adds a number, or null if it is NaN or infinite. */
void results_put_number(struct cJSON *object, const char *key, double value);
/* Adds a string, or null for NULL and the empty string. */
void results_put_text(struct cJSON *object, const char *key, const char *text);

#endif
