/* Adds members that may be unknown to a results file. An unknown value is null. */
#include <math.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"

void results_put_number(cJSON *object, const char *key, double value) {
    if (isfinite(value))
        cJSON_AddNumberToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

void results_put_text(cJSON *object, const char *key, const char *text) {
    if (text != NULL && text[0] != '\0')
        cJSON_AddStringToObject(object, key, text);
    else
        cJSON_AddNullToObject(object, key);
}
