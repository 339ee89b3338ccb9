#include "bench/record/results_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/bench_statistics.h"
#include "common/table_print.h"
#include "formats/json_file.h"
#include "formats/utf8_text.h"

enum {
    MAX_ROWS = 20000
};

const char *results_get_text(const cJSON *object, const char *key) {
    const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text == NULL || text[0] == '\0' ? NULL : text;
}

double results_get_number(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

const char *results_device_name(const cJSON *device) {
    const char *const board = results_get_text(device, "board_name");
    return board != NULL ? board : results_get_text(device, "name");
}

int results_row_is_noisy(const results_row *row) {
    return !isnan(results_get_number(row->metrics, "noisy")) ||
           (row->note != NULL && strncmp(row->note, "noisy", strlen("noisy")) == 0);
}

void results_value_text(const cJSON *item, char *text, size_t size) {
    text[0] = '\0';
    if (cJSON_IsString(item))
        snprintf(text, size, "%s", item->valuestring);
    else if (cJSON_IsNumber(item))
        snprintf(text, size, "%.10g", item->valuedouble);
    else if (cJSON_IsBool(item))
        snprintf(text, size, "%s", cJSON_IsTrue(item) ? "yes" : "no");
    const cJSON *each;
    cJSON_ArrayForEach(each, item) {
        if (cJSON_IsString(each))
            text_append(text, size, ", ", "%s", each->valuestring);
    }
    utf8_trim(text);
}

/* ---- a row ----------------------------------------------------------------------------------- */

static int read_status(const cJSON *json, const json_place *place, results_row *row,
                       file_error *error) {
    static const char *const names[] = {"ok", "skipped", "failed"};
    const char *text = NULL;
    if (json_get_text(json, "status", place, &text, error) != 0)
        return -1;
    int status = RESULT_OK;
    while (status <= RESULT_FAILED && strcmp(text, names[status]) != 0)
        status++;
    if (status > RESULT_FAILED)
        return json_fail(place, error, "member \"status\" is '%s'", file_printable(text).text);
    const cJSON *const verified = cJSON_GetObjectItemCaseSensitive(json, "verified");
    row->status = (result_status)status;
    row->verified = cJSON_IsTrue(verified);
    if (row->status == RESULT_OK && cJSON_IsFalse(verified))
        return json_fail(place, error, "the row's status is ok, but its output was wrong");
    return 0;
}

/* Only rows that are ok have usable times. */
static int read_samples(const cJSON *json, const json_place *place, results_row *row,
                        file_error *error) {
    const cJSON *const raw = cJSON_GetObjectItemCaseSensitive(json, "raw_s");
    const int count = cJSON_IsArray(raw) ? cJSON_GetArraySize(raw) : 0;
    row->median_s = NAN;
    if (row->status != RESULT_OK)
        return 0;
    if (count == 0)
        return json_fail(place, error, "the row's status is ok, but \"raw_s\" has no samples");
    row->raw_s = malloc((size_t)count * sizeof *row->raw_s);
    if (row->raw_s == NULL)
        return json_fail(place, error, "out of memory");
    const cJSON *item;
    cJSON_ArrayForEach(item, raw) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0))
            return json_fail(place, error, "sample %zu of \"raw_s\" is not a positive number",
                             row->samples + 1);
        row->raw_s[row->samples++] = item->valuedouble;
    }
    row->median_s = summarize_samples(row->raw_s, row->samples).median;
    return isnan(row->median_s) ? json_fail(place, error, "out of memory") : 0;
}

static double positive(double value) {
    return value > 0 && isfinite(value) ? value : NAN;
}

static int read_device_index(const cJSON *json, const json_place *place, const results_file *file,
                             results_row *row, file_error *error) {
    const char *const selector = results_get_text(json, "device");
    for (size_t i = 0; selector != NULL && i < file->device_count; i++) {
        const char *const each = results_get_text(file->devices[i], "selector");
        if (each == NULL || strcmp(each, selector) != 0)
            continue;
        row->device = i;
        return 0;
    }
    return selector == NULL ? 0
                            : json_fail(place, error, "the file does not describe the device '%s'",
                                        file_printable(selector).text);
}

static int read_row(const cJSON *json, const results_file *file, size_t number, results_row *row,
                    file_error *error) {
    char part[160];
    const json_place place = {file->path, part};
    *row = (results_row){.variant = results_get_text(json, "variant"),
                         .dtype = results_get_text(json, "dtype"),
                         .mode = results_get_text(json, "mode"),
                         .packing = results_get_text(json, "packing"),
                         .shape = cJSON_GetObjectItemCaseSensitive(json, "shape"),
                         .metrics = cJSON_GetObjectItemCaseSensitive(json, "metrics"),
                         .flops = positive(results_get_number(json, "flops")),
                         .bytes = positive(results_get_number(json, "bytes")),
                         .reason = results_get_text(json, "reason"),
                         .note = results_get_text(json, "note")};
    snprintf(part, sizeof part, "row %zu", number);
    if (json_get_text(json, "suite", &place, &row->suite, error) != 0 ||
        json_get_text(json, "case", &place, &row->case_name, error) != 0 ||
        json_get_text(json, "impl", &place, &row->impl, error) != 0)
        return -1;
    snprintf(part, sizeof part, "row %zu (%s)", number, file_printable(row->case_name).text);
    if (read_status(json, &place, row, error) != 0 ||
        read_device_index(json, &place, file, row, error) != 0 ||
        read_samples(json, &place, row, error) != 0)
        return -1;
    row->gflops = positive(row->flops / row->median_s * 1e-9);
    row->gbs = positive(row->bytes / row->median_s * 1e-9);
    return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Accepts "tandem-bench/1", "tandem-report/1" and their minor versions, which may add members. */
static int is_known_schema(const char *schema) {
    static const char *const names[] = {"tandem-bench/1", "tandem-report/1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t length = strlen(names[i]);
        const char *const minor = schema + length;
        if (strncmp(schema, names[i], length) == 0 &&
            (minor[0] == '\0' || (minor[0] == '.' && minor[1] != '\0' &&
                                  strspn(minor + 1, "0123456789") == strlen(minor + 1))))
            return 1;
    }
    return 0;
}

/*
 * Returns 1 if no string or member name has control characters, because they are printed later. The
 * parser limits the depth of the recursion.
 */
static int is_plain(const cJSON *item) {
    const char *const texts[] = {item->string, cJSON_GetStringValue(item)};
    for (int i = 0; i < 2; i++)
        if (texts[i] != NULL && !utf8_is_plain(texts[i], strlen(texts[i])))
            return 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, item) {
        if (!is_plain(each))
            return 0;
    }
    return 1;
}

static int read_devices(results_file *file, const json_place *place, file_error *error) {
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(file->json, "devices");
    const int listed = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    file->devices = calloc((size_t)listed + 1, sizeof *file->devices);
    if (file->devices == NULL)
        return json_fail(place, error, "out of memory");
    file->devices[file->device_count++] = cJSON_GetObjectItemCaseSensitive(file->json, "device");
    if (listed > 0)
        file->device_count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        file->devices[file->device_count++] = item;
    }
    return 0;
}

static int read_rows(results_file *file, const json_place *place, file_error *error) {
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(file->json, "results");
    if (!cJSON_IsArray(list))
        return json_fail(place, error, "member \"results\" is %s",
                         list == NULL ? "missing" : "not a list");
    const int count = cJSON_GetArraySize(list);
    if (count > MAX_ROWS)
        return json_fail(place, error, "it has more than %d rows", MAX_ROWS);
    file->rows = calloc((size_t)count + 1, sizeof *file->rows);
    if (file->rows == NULL)
        return json_fail(place, error, "out of memory");
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const size_t row = file->row_count++;
        if (read_row(item, file, row + 1, &file->rows[row], error) != 0)
            return -1;
    }
    return 0;
}

static int read_document(results_file *file, file_error *error) {
    const json_place place = {file->path, NULL};
    const cJSON *const json = file->json;
    if (!is_plain(json))
        return json_fail(&place, error, "a string in it contains a control character");
    if (json_get_text(json, "schema", &place, &file->schema, error) != 0)
        return -1;
    if (!is_known_schema(file->schema))
        return json_fail(&place, error,
                         "its schema is '%s'; this program reads tandem-bench/1 and "
                         "tandem-report/1",
                         file_printable(file->schema).text);
    file->created = results_get_text(json, "created");
    file->library = cJSON_GetObjectItemCaseSensitive(json, "library");
    file->host = cJSON_GetObjectItemCaseSensitive(json, "host");
    file->environment = cJSON_GetObjectItemCaseSensitive(json, "environment");
    return read_devices(file, &place, error) != 0 ? -1 : read_rows(file, &place, error);
}

static int read_parsed(const char *path, cJSON *json, results_file *file, file_error *error) {
    const char *const slash = strrchr(path, '/');
    *file = (results_file){.path = path, .name = slash == NULL ? path : slash + 1, .json = json};
    if (json != NULL && read_document(file, error) == 0)
        return 0;
    results_file_release(file);
    return -1;
}

int results_read(const char *path, results_file *file, file_error *error) {
    return read_parsed(path, json_file_read(path, error), file, error);
}

int results_read_text(const char *name, const char *text, size_t length, results_file *file,
                      file_error *error) {
    return read_parsed(name, json_text_read(name, text, length, error), file, error);
}

void results_file_release(results_file *file) {
    for (size_t i = 0; i < file->row_count; i++)
        free(file->rows[i].raw_s);
    free(file->devices);
    free(file->rows);
    cJSON_Delete(file->json);
    *file = (results_file){.path = NULL};
}
