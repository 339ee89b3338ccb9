#include "bench/record/results_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/record/bench_statistics.h"
#include "bench/record/device_database.h"
#include "bench/record/environment_record.h"
#include "common/command/cli_options.h"
#include "formats/output_file.h"
#include "formats/utf8_text.h"

#include "build_info.h"

struct results_document {
    cJSON *root;
    cJSON *environment;
    cJSON *results;
    cJSON *devices; /* NULL until there is a second device */
    int device_count;
    int failures;
};

/* Writes a number, or null if it is not above zero. Zero means unknown here. */
static void put_known(cJSON *object, const char *key, double value) {
    results_put_number(object, key, value > 0 ? value : NAN);
}

/* The compiler of this program, which also built the library. */
#ifdef __clang__
static const char compiler[] = __VERSION__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

cJSON *results_library_json(void) {
    cJSON *const library = cJSON_CreateObject();
    results_put_text(library, "version", tdm_version_text());
    results_put_text(library, "commit", TANDEM_BUILD_COMMIT);
    results_put_text(library, "compiler", compiler);
    results_put_text(library, "build_type", TANDEM_BUILD_TYPE);
    results_put_text(library, "flags", TANDEM_BUILD_FLAGS);
    return library;
}

const char *results_device_type(tdm_device_type type) {
    switch (type) {
    case TDM_DEVICE_CPU:
        return "cpu";
    case TDM_DEVICE_GPU:
        return "gpu";
    case TDM_DEVICE_ACCELERATOR:
        return "accelerator";
    case TDM_DEVICE_OTHER:
        return "other";
    }
    return NULL;
}

cJSON *results_device_json(const tdm_device_info *info) {
    cJSON *const device = cJSON_CreateObject();
    results_put_text(device, "backend", info->backend);
    results_put_text(device, "driver_family", info->driver_family);
    results_put_text(device, "name", info->name);
    results_put_text(device, "board_name", info->board_name);
    results_put_text(device, "selector", info->selector);
    results_put_text(device, "pci_address", info->pci_address);
    results_put_text(device, "vendor", info->vendor);
    results_put_text(device, "driver", info->driver_version);
    results_put_text(device, "api_version", info->api_version);
    results_put_text(device, "kernel_language", info->kernel_language);
    results_put_text(device, "type", results_device_type(info->type));
    /* No driver interface distinguishes HBM from GDDR. */
    const datasheet *const sheet = datasheet_of_board(info->board_name, info->name);
    results_put_text(device, "memory_type", sheet == NULL ? NULL : sheet->memory_type);
    put_known(device, "compute_units", info->compute_units);
    put_known(device, "clock_mhz", info->clock_mhz);
    put_known(device, "global_bytes", (double)info->global_bytes);
    put_known(device, "local_bytes", (double)info->local_bytes);
    put_known(device, "max_alloc_bytes", (double)info->max_alloc_bytes);
    put_known(device, "cache_bytes", (double)info->cache_bytes);
    put_known(device, "constant_bytes", (double)info->constant_bytes);
    put_known(device, "max_group_items", info->max_group_items);
    put_known(device, "subgroup_size", info->subgroup_size);
    put_known(device, "alignment_bytes", info->alignment_bytes);
    put_known(device, "address_bits", info->address_bits);
    put_known(device, "timer_ns", info->timer_ns);
    put_known(device, "unit_items", info->unit_items);
    put_known(device, "memory_clock_mhz", info->memory_clock_mhz);
    put_known(device, "memory_bus_bits", info->memory_bus_bits);
    put_known(device, "compute_capability", info->architecture / 10.0);
    cJSON_AddItemToObject(device, "error_correction",
                          info->error_correction ? cJSON_CreateBool(info->error_correction == 2)
                                                 : cJSON_CreateNull());
    cJSON *const capabilities = cJSON_AddArrayToObject(device, "capabilities");
    for (int bit = 0; bit < 32; bit++) {
        const char *const name = tdm_capability_name((uint32_t)1 << bit);
        if (name != NULL && (info->capabilities >> bit & 1) != 0)
            cJSON_AddItemToArray(capabilities, cJSON_CreateString(name));
    }
    return device;
}

static void add_creation_time(cJSON *root) {
    char text[32];
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        text[0] = '\0';
    results_put_text(root, "created", text);
}

results_document *results_create(void) {
    results_document *const document = calloc(1, sizeof *document);
    if (document == NULL)
        return NULL;
    document->root = cJSON_CreateObject();
    cJSON_AddStringToObject(document->root, "schema", "tandem-bench/1");
    cJSON_AddItemToObject(document->root, "library", results_library_json());
    add_creation_time(document->root);
    cJSON_AddItemToObject(document->root, "command", command_line_json());
    cJSON_AddItemToObject(document->root, "host", environment_host());
    cJSON_AddNullToObject(document->root, "device");
    document->environment = environment_settings();
    cJSON_AddItemToObject(document->root, "environment", document->environment);
    document->results = cJSON_AddArrayToObject(document->root, "results");
    if (document->environment == NULL || document->results == NULL) {
        results_destroy(document);
        return NULL;
    }
    return document;
}

void results_destroy(results_document *document) {
    if (document == NULL)
        return;
    cJSON_Delete(document->root);
    free(document);
}

void results_add_device(results_document *document, const tdm_device_info *info) {
    if (document == NULL)
        return;
    if (document->device_count++ == 0) {
        cJSON_ReplaceItemInObjectCaseSensitive(document->root, "device", results_device_json(info));
        return;
    }
    if (document->devices == NULL) {
        document->devices = cJSON_AddArrayToObject(document->root, "devices");
        cJSON *const first = cJSON_GetObjectItemCaseSensitive(document->root, "device");
        cJSON_AddItemToArray(document->devices, cJSON_Duplicate(first, 1));
    }
    cJSON_AddItemToArray(document->devices, results_device_json(info));
}

void results_add_environment(results_document *document, const char *key, const char *value) {
    if (document == NULL || cJSON_HasObjectItem(document->environment, key))
        return;
    results_put_text(document->environment, key, value);
}

void results_add_environment_number(results_document *document, const char *key, double value) {
    if (document != NULL && !cJSON_HasObjectItem(document->environment, key))
        results_put_number(document->environment, key, value);
}

static cJSON *numbers_object(const result_number *numbers) {
    cJSON *const object = cJSON_CreateObject();
    for (int i = 0; i < RESULT_MAX_NUMBERS && numbers[i].key != NULL; i++)
        results_put_number(object, numbers[i].key, numbers[i].value);
    return object;
}

static void add_samples(cJSON *row, const bench_result *result) {
    const sample_summary summary = summarize_samples(result->raw_s, result->samples);
    cJSON_AddNumberToObject(row, "samples", (double)result->samples);
    cJSON *const raw = cJSON_AddArrayToObject(row, "raw_s");
    for (size_t i = 0; i < result->samples; i++) {
        const double value = result->raw_s[i];
        cJSON_AddItemToArray(raw, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
    }
    results_put_number(row, "median_s", summary.median);
    results_put_number(row, "min_s", summary.minimum);
    results_put_number(row, "p5_s", summary.p5);
    results_put_number(row, "p95_s", summary.p95);
    put_known(row, "flops", result->flops);
    put_known(row, "bytes", result->bytes);
    put_known(row, "gflops", result->flops / summary.median * 1e-9);
    put_known(row, "gbs", result->bytes / summary.median * 1e-9);
}

static void add_verdict(cJSON *row, const bench_result *result) {
    static const char *const names[] = {"ok", "skipped", "failed"};
    if (result->check == RESULT_UNCHECKED)
        cJSON_AddNullToObject(row, "verified");
    else
        cJSON_AddBoolToObject(row, "verified", result->check == RESULT_VERIFIED);
    results_put_number(row, "max_error",
                       result->check == RESULT_UNCHECKED ? NAN : result->max_error);
    cJSON_AddStringToObject(row, "status", names[result->status]);
    results_put_text(row, "reason", result->reason);
    results_put_text(row, "note", result->note);
}

void results_add(results_document *document, const bench_result *result) {
    if (document == NULL)
        return;
    cJSON *const row = cJSON_CreateObject();
    results_put_text(row, "suite", result->suite);
    results_put_text(row, "case", result->case_name);
    results_put_text(row, "impl", result->impl);
    results_put_text(row, "variant", result->variant);
    results_put_text(row, "dtype", result->dtype);
    if (result->device != NULL)
        results_put_text(row, "device", result->device);
    cJSON_AddItemToObject(row, "shape", numbers_object(result->shape));
    results_put_text(row, "mode", result->mode);
    results_put_text(row, "packing", result->packing);
    add_samples(row, result);
    add_verdict(row, result);
    if (result->metrics[0].key != NULL)
        cJSON_AddItemToObject(row, "metrics", numbers_object(result->metrics));
    cJSON_AddItemToArray(document->results, row);
    document->failures += result->status == RESULT_FAILED;
}

int results_failures(const results_document *document) {
    return document == NULL ? 0 : document->failures;
}

static int refuse_path(const char *command, const char *path, const char *reason) {
    fprintf(stderr, "%s: cannot write '%s': %s\n", command, path, reason);
    return -1;
}

int results_check_path(const char *command, const char *path) {
    struct stat file;
    if (path == NULL || results_is_stdout(path))
        return 0;
    const int is_there = stat(path, &file) == 0;
    const int is_folder = is_there && S_ISDIR(file.st_mode);
    /* An existing file is not opened as a test: the reader of a named pipe would see its end. */
    if (!is_folder && (is_there ? access(path, W_OK) == 0 : output_file_replaces(path)))
        return 0;
    return refuse_path(command, path, strerror(is_folder ? EISDIR : errno));
}

static int write_into(const char *path, const char *text, size_t length) {
    FILE *const file = fopen(path, "w");
    int failed = file == NULL || fwrite(text, 1, length, file) != length;
    failed |= file != NULL && fclose(file) != 0;
    return failed ? -1 : 0;
}

int results_is_stdout(const char *path) {
    return path != NULL && strcmp(path, "-") == 0;
}

int results_would_replace(const char *path, const char *other) {
    return !results_is_stdout(path) && output_would_be(path, other);
}

int results_write_text(const char *command, const char *path, const char *text, size_t length) {
    file_error error;
    if (results_is_stdout(path)) {
        fwrite(text, 1, length, stdout);
        return 0;
    }
    if (!output_file_replaces(path))
        return write_into(path, text, length) == 0 ? 0
                                                   : refuse_path(command, path, strerror(errno));
    if (output_file_write(path, text, length, &error) == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", command, error.text);
    return -1;
}

char *results_json_text(const cJSON *json) {
    char *const printed = cJSON_Print(json);
    char *const text = printed != NULL ? utf8_replace_invalid(printed) : NULL;
    free(printed);
    return text;
}

int results_write_json(const cJSON *json, const char *command, const char *path) {
    char *const text = results_json_text(json);
    if (text == NULL)
        return refuse_path(command, path, "out of memory");
    const size_t length = strlen(text);
    text[length] = '\n'; /* replaces the terminating zero */
    const int result = results_write_text(command, path, text, length + 1);
    free(text);
    return result;
}

int results_write(const results_document *document, const char *command, const char *path) {
    if (document == NULL)
        return refuse_path(command, path, "out of memory");
    return results_write_json(document->root, command, path);
}
