#include "bench/record/results_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/bench_statistics.h"
#include "formats/json_file.h"
#include "formats/utf8_text.h"

/* What a file computed itself may differ from what is computed here, by rounding. */
#define TOLERANCE 1e-6

enum {
    SCHEMA_MAJOR = 1,
    MAX_ROWS = 20000,
    MAX_FACT = 400 /* bytes of a text */
};

static int differs(double given, double expected) {
    return !(fabs(given - expected) <= TOLERANCE * fabs(expected));
}

const char *results_fact_text(const results_facts *facts, const char *key) {
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].key, key) == 0)
            return facts->items[i].text;
    }
    return NULL;
}

double results_fact_number(const results_facts *facts, const char *key) {
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].key, key) == 0)
            return facts->items[i].number;
    }
    return NAN;
}

const char *results_device_name(const results_facts *device) {
    const char *const board = results_fact_text(device, "board_name");
    return board != NULL ? board : results_fact_text(device, "name");
}

int results_row_is_noisy(const results_row *row) {
    return !isnan(results_figure_value(&row->metrics, "noisy")) ||
           (row->note != NULL && strncmp(row->note, "noisy", strlen("noisy")) == 0);
}

double results_figure_value(const results_figures *figures, const char *key) {
    for (size_t i = 0; i < figures->count; i++) {
        if (strcmp(figures->items[i].key, key) == 0)
            return figures->items[i].value;
    }
    return NAN;
}

static void release_facts(results_facts *facts) {
    for (size_t i = 0; i < facts->count; i++) {
        free(facts->items[i].key);
        free(facts->items[i].text);
    }
    free(facts->items);
    *facts = (results_facts){NULL, 0};
}

/* ---- facts ----------------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", more);
}

/* The printed form of a value; 0 where it has none. */
static int print_value(const cJSON *item, char *text, size_t size) {
    text[0] = '\0';
    if (cJSON_IsString(item))
        snprintf(text, size, "%s", item->valuestring);
    else if (cJSON_IsNumber(item))
        snprintf(text, size, "%.10g", item->valuedouble);
    else if (cJSON_IsBool(item))
        snprintf(text, size, "%s", cJSON_IsTrue(item) ? "yes" : "no");
    else if (!cJSON_IsArray(item))
        return 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, item) {
        if (cJSON_IsString(each))
            append(text, size, each->valuestring);
    }
    return 1;
}

static int add_fact(results_facts *facts, const char *prefix, const cJSON *item) {
    char key[MAX_FACT];
    char text[MAX_FACT];
    results_fact *const fact = &facts->items[facts->count];
    snprintf(key, sizeof key, "%s%s", prefix, item->string);
    const int printed = print_value(item, text, sizeof text);
    /* What is cut in the middle of a sequence ends there: the texts are printed. */
    for (size_t length = strlen(text); printed && length > 0 && !utf8_is_plain(text, length);)
        text[--length] = '\0';
    fact->key = strdup(key);
    fact->text = printed ? strdup(text) : NULL;
    fact->number = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    facts->count++;
    return fact->key == NULL || (printed && fact->text == NULL) ? -1 : 0;
}

static size_t count_values(const cJSON *object) {
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        count += cJSON_IsObject(item) ? (size_t)cJSON_GetArraySize(item) : 1;
    }
    return count;
}

static int check_keys(const cJSON *object, const json_place *place, file_error *error) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        if (item->string[0] == '\0' || !utf8_is_plain(item->string, strlen(item->string)))
            return json_fail(place, error,
                             "the name of a member is empty or has a control character");
        if (cJSON_IsString(item) && !utf8_is_plain(item->valuestring, strlen(item->valuestring)))
            return json_fail(place, error, "member \"%s\" has a control character",
                             file_printable(item->string).text);
        if (cJSON_IsObject(item)) {
            const cJSON *inner;
            cJSON_ArrayForEach(inner, item) {
                if (!utf8_is_plain(inner->string, strlen(inner->string)))
                    return json_fail(place, error, "the name of a member has a control character");
            }
        }
    }
    return 0;
}

static int add_all(results_facts *facts, const cJSON *object) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        char prefix[MAX_FACT];
        if (!cJSON_IsObject(item)) {
            if (add_fact(facts, "", item) != 0)
                return -1;
            continue;
        }
        snprintf(prefix, sizeof prefix, "%s.", item->string);
        const cJSON *inner;
        cJSON_ArrayForEach(inner, item) {
            if (add_fact(facts, prefix, inner) != 0)
                return -1;
        }
    }
    return 0;
}

static int parse_facts(const cJSON *object, const json_place *place, results_facts *facts,
                       file_error *error) {
    *facts = (results_facts){NULL, 0};
    if (object == NULL || cJSON_IsNull(object))
        return 0;
    if (!cJSON_IsObject(object))
        return json_fail(place, error, "it is no object");
    if (check_keys(object, place, error) != 0)
        return -1;
    facts->items = calloc(count_values(object) + 1, sizeof *facts->items);
    if (facts->items == NULL)
        return json_fail(place, error, "out of memory");
    if (add_all(facts, object) == 0)
        return 0;
    release_facts(facts);
    return json_fail(place, error, "out of memory");
}

/* ---- figures --------------------------------------------------------------------------------------- */

static int read_figures(const cJSON *row, const char *key, const json_place *place,
                        results_figures *figures, file_error *error) {
    const cJSON *const object = cJSON_GetObjectItemCaseSensitive(row, key);
    *figures = (results_figures){NULL, 0};
    if (object == NULL || cJSON_IsNull(object))
        return 0;
    if (!cJSON_IsObject(object))
        return json_fail(place, error, "member \"%s\" is no object", key);
    if (check_keys(object, place, error) != 0)
        return -1;
    figures->items = calloc((size_t)cJSON_GetArraySize(object) + 1, sizeof *figures->items);
    if (figures->items == NULL)
        return json_fail(place, error, "out of memory");
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
            return json_fail(place, error, "\"%s\" of member \"%s\" is no number",
                             file_printable(item->string).text, key);
        figures->items[figures->count++] =
            (results_figure){item->string, cJSON_IsNumber(item) ? item->valuedouble : NAN};
    }
    return 0;
}

/* ---- a row ----------------------------------------------------------------------------------------- */

static int read_texts(const cJSON *json, const json_place *place, results_row *row,
                      file_error *error) {
    const struct {
        const char *key;
        int may_be_null;
        const char **text;
    } members[] = {
        {"suite", JSON_REQUIRED, &row->suite},
        {"case", JSON_REQUIRED, &row->case_name},
        {"impl", JSON_REQUIRED, &row->impl},
        {"variant", JSON_MAY_BE_NULL, &row->variant},
        {"dtype", JSON_MAY_BE_NULL, &row->dtype},
        {"mode", JSON_MAY_BE_NULL, &row->mode},
        {"packing", JSON_MAY_BE_NULL, &row->packing},
        {"reason", JSON_MAY_BE_NULL, &row->reason},
        {"note", JSON_MAY_BE_NULL, &row->note},
        {"throttle_reasons", JSON_MAY_BE_NULL, &row->throttle_reasons},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (json_get_text(json, members[i].key, members[i].may_be_null, place, members[i].text,
                          error) != 0)
            return -1;
    }
    return 0;
}

static int read_status(const cJSON *json, const json_place *place, results_row *row,
                       file_error *error) {
    static const char *const names[] = {"ok", "skipped", "failed"};
    const char *text = NULL;
    if (json_get_text(json, "status", JSON_REQUIRED, place, &text, error) != 0)
        return -1;
    int found = 0;
    for (int i = RESULT_OK; i <= RESULT_FAILED; i++) {
        if (strcmp(text, names[i]) == 0) {
            row->status = (result_status)i;
            found = 1;
        }
    }
    if (!found)
        return json_fail(place, error,
                         "member \"status\" is '%s'; ok, skipped and failed are known",
                         file_printable(text).text);
    const cJSON *const verified = cJSON_GetObjectItemCaseSensitive(json, "verified");
    if (verified != NULL && !cJSON_IsNull(verified) && !cJSON_IsBool(verified))
        return json_fail(place, error, "member \"verified\" is neither true, false nor null");
    row->verified = cJSON_IsBool(verified) ? cJSON_IsTrue(verified) : -1;
    if (row->status == RESULT_OK && row->verified == 0)
        return json_fail(place, error, "the row is ok although its output was wrong");
    return 0;
}

static int read_sample(const cJSON *item, size_t index, const json_place *place, double *value,
                       file_error *error) {
    if (!cJSON_IsNumber(item))
        return json_fail(place, error, "sample %zu of \"raw_s\" is no number", index + 1);
    if (!(item->valuedouble > 0))
        return json_fail(place, error, "sample %zu of \"raw_s\" is %.10g seconds", index + 1,
                         item->valuedouble);
    *value = item->valuedouble;
    return 0;
}

/* Of a row that is ok: the others have no times that anybody may use. */
static int read_samples(const cJSON *json, const json_place *place, results_row *row,
                        file_error *error) {
    double declared = NAN;
    const cJSON *const raw = cJSON_GetObjectItemCaseSensitive(json, "raw_s");
    if (!cJSON_IsArray(raw))
        return json_fail(place, error, "member \"raw_s\" is %s",
                         raw == NULL ? "missing" : "no list");
    const size_t count = (size_t)cJSON_GetArraySize(raw);
    if (json_get_number(json, "samples", JSON_MAY_BE_NULL, place, &declared, error) != 0)
        return -1;
    if (!isnan(declared) && declared != (double)count)
        return json_fail(place, error, "\"samples\" is %.10g, but \"raw_s\" has %zu", declared,
                         count);
    if (row->status != RESULT_OK)
        return 0;
    if (count == 0)
        return json_fail(place, error, "the row is ok, but \"raw_s\" has no samples");
    row->raw_s = malloc(count * sizeof *row->raw_s);
    if (row->raw_s == NULL)
        return json_fail(place, error, "out of memory");
    const cJSON *item;
    cJSON_ArrayForEach(item, raw) {
        if (read_sample(item, row->samples, place, &row->raw_s[row->samples], error) != 0)
            return -1;
        row->samples++;
    }
    return 0;
}

static int check_time(const cJSON *json, const char *key, int may_be_null, double expected,
                      const json_place *place, file_error *error) {
    double given = NAN;
    if (json_get_number(json, key, may_be_null, place, &given, error) != 0)
        return -1;
    if (!isnan(given) && differs(given, expected))
        return json_fail(place, error, "\"%s\" is %.10g, but the samples give %.10g", key, given,
                         expected);
    return 0;
}

static int read_times(const cJSON *json, const json_place *place, results_row *row,
                      file_error *error) {
    const sample_summary summary = summarize_samples(row->raw_s, row->samples);
    row->median_s = summary.median;
    row->p5_s = summary.p5;
    row->p95_s = summary.p95;
    if (row->status != RESULT_OK)
        return 0;
    if (isnan(summary.median))
        return json_fail(place, error, "out of memory");
    return check_time(json, "median_s", JSON_REQUIRED, summary.median, place, error) != 0 ||
                   check_time(json, "p5_s", JSON_MAY_BE_NULL, summary.p5, place, error) != 0 ||
                   check_time(json, "p95_s", JSON_MAY_BE_NULL, summary.p95, place, error) != 0
               ? -1
               : 0;
}

/* Work of one kind, and the rate that follows from it. */
static int read_work(const cJSON *json, const char *work_key, const char *rate_key,
                     const json_place *place, const results_row *row, double *work, double *rate,
                     file_error *error) {
    if (json_get_number(json, work_key, JSON_MAY_BE_NULL, place, work, error) != 0 ||
        json_get_number(json, rate_key, JSON_MAY_BE_NULL, place, rate, error) != 0)
        return -1;
    if (!isnan(*work) && !(*work > 0))
        return json_fail(place, error, "\"%s\" is %.10g; what is not known is null", work_key,
                         *work);
    if (!isnan(*rate) && !(*rate > 0))
        return json_fail(place, error, "\"%s\" is %.10g; what is not known is null", rate_key,
                         *rate);
    if (row->status != RESULT_OK)
        return 0;
    const double expected = *work / row->median_s * 1e-9;
    if (isinf(expected))
        return json_fail(place, error,
                         "\"%s\" is %.10g, which over the median of %.10g s is no rate", work_key,
                         *work, row->median_s);
    if (!isnan(*rate) && differs(*rate, expected))
        return json_fail(place, error, "\"%s\" is %.10g, but \"%s\" over the median is %.10g",
                         rate_key, *rate, work_key, expected);
    *rate = expected;
    return 0;
}

static int read_device_index(const cJSON *json, const json_place *place, const results_file *file,
                             results_row *row, file_error *error) {
    const char *selector = NULL;
    if (json_get_text(json, "device", JSON_MAY_BE_NULL, place, &selector, error) != 0)
        return -1;
    for (size_t i = 0; selector != NULL && i < file->device_count; i++) {
        const char *const each = results_fact_text(&file->devices[i], "selector");
        if (each == NULL || strcmp(each, selector) != 0)
            continue;
        row->device = i;
        return 0;
    }
    return selector == NULL ? 0
                            : json_fail(place, error, "the file does not describe the device '%s'",
                                        file_printable(selector).text);
}

static int read_row(const cJSON *json, const char *path, const results_file *file, results_row *row,
                    file_error *error) {
    char part[160];
    json_place place = {path, part};
    snprintf(part, sizeof part, "row %zu", row->number);
    if (!cJSON_IsObject(json))
        return json_fail(&place, error, "it is no object");
    if (read_texts(json, &place, row, error) != 0)
        return -1;
    snprintf(part, sizeof part, "row %zu (%s)", row->number, file_printable(row->case_name).text);
    if (read_status(json, &place, row, error) != 0 ||
        read_device_index(json, &place, file, row, error) != 0 ||
        read_figures(json, "shape", &place, &row->shape, error) != 0 ||
        read_figures(json, "metrics", &place, &row->metrics, error) != 0 ||
        read_samples(json, &place, row, error) != 0 || read_times(json, &place, row, error) != 0)
        return -1;
    return read_work(json, "flops", "gflops", &place, row, &row->flops, &row->gflops, error) != 0 ||
                   read_work(json, "bytes", "gbs", &place, row, &row->bytes, &row->gbs, error) != 0
               ? -1
               : 0;
}

/* ---- the file -------------------------------------------------------------------------------------- */

/* "1", or "1.4": the major version in its one form, and digits behind a point. */
static int is_known_version(const char *text) {
    char major[16];
    snprintf(major, sizeof major, "%d", SCHEMA_MAJOR);
    const size_t length = strlen(major);
    if (strncmp(text, major, length) != 0)
        return 0;
    const char *const minor = text + length;
    return minor[0] == '\0' || (minor[0] == '.' && minor[1] != '\0' &&
                                strspn(minor + 1, "0123456789") == strlen(minor + 1));
}

/* "tandem-bench/1" or "tandem-report/1", or a later minor version of them: members may be added. */
static int check_schema(results_file *file, const json_place *place, file_error *error) {
    static const char *const names[] = {"tandem-bench/", "tandem-report/"};
    if (json_get_text(file->json, "schema", JSON_REQUIRED, place, &file->schema, error) != 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(file->schema, names[i], length) != 0)
            continue;
        if (is_known_version(file->schema + length))
            return 0;
    }
    return json_fail(place, error,
                     "its schema is '%s'; this program reads tandem-bench/%d and tandem-report/%d",
                     file_printable(file->schema).text, SCHEMA_MAJOR, SCHEMA_MAJOR);
}

static int read_facts(const results_file *file, const char *key, results_facts *facts,
                      file_error *error) {
    const json_place place = {file->path, key};
    return parse_facts(cJSON_GetObjectItemCaseSensitive(file->json, key), &place, facts, error);
}

static int read_devices(results_file *file, file_error *error) {
    const json_place place = {file->path, "devices"};
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(file->json, "devices");
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return json_fail(&place, error, "it is no list");
    const int listed = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    file->devices = calloc((size_t)listed + 1, sizeof *file->devices);
    if (file->devices == NULL)
        return json_fail(&place, error, "out of memory");
    file->device_count = 1;
    if (listed == 0)
        return read_facts(file, "device", &file->devices[0], error);
    file->device_count = (size_t)listed;
    size_t next = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (parse_facts(item, &place, &file->devices[next++], error) != 0)
            return -1;
    }
    return 0;
}

static int read_rows(results_file *file, const json_place *place, file_error *error) {
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(file->json, "results");
    if (!cJSON_IsArray(list))
        return json_fail(place, error, "member \"results\" is %s",
                         list == NULL ? "missing" : "no list");
    const int count = cJSON_GetArraySize(list);
    if (count > MAX_ROWS)
        return json_fail(place, error, "it has more than %d rows", MAX_ROWS);
    file->rows = calloc((size_t)count + 1, sizeof *file->rows);
    if (file->rows == NULL)
        return json_fail(place, error, "out of memory");
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        results_row *const row = &file->rows[file->row_count++];
        row->number = file->row_count;
        if (read_row(item, file->path, file, row, error) != 0)
            return -1;
    }
    return 0;
}

static int read_document(results_file *file, file_error *error) {
    const json_place place = {file->path, NULL};
    if (!cJSON_IsObject(file->json))
        return json_fail(&place, error, "it is no object");
    if (check_schema(file, &place, error) != 0 ||
        json_get_text(file->json, "created", JSON_MAY_BE_NULL, &place, &file->created, error) != 0)
        return -1;
    return read_facts(file, "library", &file->library, error) != 0 ||
                   read_facts(file, "host", &file->host, error) != 0 ||
                   read_facts(file, "environment", &file->environment, error) != 0 ||
                   read_devices(file, error) != 0 || read_rows(file, &place, error) != 0
               ? -1
               : 0;
}

static int read_parsed(const char *path, struct cJSON *json, results_file *file,
                       file_error *error) {
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
    for (size_t i = 0; i < file->row_count; i++) {
        free(file->rows[i].shape.items);
        free(file->rows[i].metrics.items);
        free(file->rows[i].raw_s);
    }
    for (size_t i = 0; i < file->device_count; i++)
        release_facts(&file->devices[i]);
    release_facts(&file->library);
    release_facts(&file->host);
    release_facts(&file->environment);
    free(file->devices);
    free(file->rows);
    cJSON_Delete(file->json);
    *file = (results_file){.path = NULL};
}

void results_put_first(results_file *file, size_t device) {
    const results_facts first = file->devices[0];
    file->devices[0] = file->devices[device];
    file->devices[device] = first;
    for (size_t i = 0; i < file->row_count; i++) {
        size_t *const own = &file->rows[i].device;
        *own = *own == 0 ? device : *own == device ? 0 : *own;
    }
}
