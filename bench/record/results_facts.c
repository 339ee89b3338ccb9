/* The parts of a results file that are lists of names and values: devices, environment, shapes, metrics. */
#include "bench/record/results_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/utf8_text.h"

enum {
    MAX_FACT = 400
};

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

void results_facts_release(results_facts *facts) {
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

int results_facts_read(const cJSON *object, const json_place *place, results_facts *facts,
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
    results_facts_release(facts);
    return json_fail(place, error, "out of memory");
}

/* ---- figures --------------------------------------------------------------------------------------- */

int results_figures_read(const cJSON *row, const char *key, const json_place *place,
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
