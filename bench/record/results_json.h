/*
 * The results file, schema tandem-bench/1:
 *
 * {"schema":"tandem-bench/1","library":{version,commit},"created":ISO 8601,"command":[word, …],
 *  "host":{cpu,cores,ram_bytes,os},"device":{…} or null,"environment":{…},"results":[row, …]}
 *
 * The command is the line that the program was started with (command_line.h); null, or not there in early files.
 *
 * A row has every member of `bench_result` below under its schema name, the statistics computed
 * from the raw samples. A number that is not known (NaN, infinite, zero where the comment says so)
 * is null, never NaN and never 0.
 *
 * Files that describe more than one device carry all of them in
 * "devices" (then "device" is the first) and each row names its own in "device".
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

/* Whether the output was compared with the oracle. */
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

/* One row. Texts are copied; NULL texts are written as null. */
typedef struct bench_result {
    const char *suite;     /* "gemm", "memory", "infer", … */
    const char *case_name; /* "gemm f32 512x512x512 nn" */
    const char *impl;      /* "tandem", or a peer */
    const char *variant;   /* kernel that ran */
    const char *dtype;
    const char *mode;    /* "pipelined" or "waited" */
    const char *packing; /* "inside", "prepacked" or "none" */
    const char *device;  /* selector, where a file has several devices */
    result_number shape[RESULT_MAX_NUMBERS];
    result_number metrics[RESULT_MAX_NUMBERS]; /* object "metrics" when any; docs/benchmarks.md */
    const double *raw_s;                       /* seconds per operation */
    size_t samples;
    double flops; /* per operation; 0: unknown */
    double bytes; /* per operation; 0: unknown */
    result_check check;
    double max_error; /* NaN: unknown */
    result_status status;
    const char *reason; /* why it was skipped or failed; null in a row that is ok */
    const char *note;   /* what one should know who uses a row that is ok */
} bench_result;

typedef struct results_document results_document;

/* NULL when memory is short. The library, host and environment records are filled in here. */
results_document *results_create(void);

/* Add a device; the first is the file's "device". */
void results_add_device(results_document *document, const tdm_device_info *info);

/* Add a fact to the environment record, e.g. "openblas" → "0.3.21 Haswell". */
void results_add_environment(results_document *document, const char *key, const char *value);

/* The same with a number; null where it is not finite. */
void results_add_environment_number(results_document *document, const char *key, double value);

void results_add(results_document *document, const bench_result *result);

/* Rows whose status is RESULT_FAILED so far: a command that has any exits with 1. */
int results_failures(const results_document *document);

/*
 * Before any work: whether results can be written to `path`. NULL and "-" can. No file is left behind
 * and none is changed. 0, or -1 with "<command>: cannot write ..." on stderr.
 */
int results_check_path(const char *command, const char *path);

/*
 * Write to a file, "-" for stdout. 0, or -1 with the reason on stderr, as above; but what stdout does
 * not take is told at the end of the program (standard_output.h).
 */
int results_write(const results_document *document, const char *command, const char *path);

/* The same of a text, e.g. a page. A file appears whole or not at all where that can be had. */
int results_write_text(const char *command, const char *path, const char *text, size_t length);

/* Whether `path` is "-"; NULL is not. */
int results_is_stdout(const char *path);

/* Whether writing to `path` would take the place of the file `other`. Writing to "-" takes no place. */
int results_would_replace(const char *path, const char *other);

void results_destroy(results_document *document);

/* Pieces for files of another schema (tandem devices). The caller owns what comes back. */
struct cJSON *results_library_json(void);
struct cJSON *results_device_json(const tdm_device_info *info);
/* "cpu", "gpu", … */
const char *results_device_type(tdm_device_type type);
/* Make the text of a document, valid UTF-8: bytes of paths and names that are not become U+FFFD.
 * The caller frees it. NULL when memory is short. */
char *results_json_text(const struct cJSON *json);
int results_write_json(const struct cJSON *json, const char *command, const char *path);

/* A number, or null where it is NaN or infinite. */
void results_put_number(struct cJSON *object, const char *key, double value);
/* A text, or null for NULL and the empty text. */
void results_put_text(struct cJSON *object, const char *key, const char *text);

#endif
