#include "bench/cases/case_fields.h"

#include <string.h>

void case_fields_write(const case_field *fields, size_t count, const void *item,
                       worker_text *line) {
    for (size_t i = 0; i < count; i++) {
        const char *const place = (const char *)item + fields[i].offset;
        int32_t number = 0;
        int64_t value = 0;
        if (fields[i].size == sizeof value)
            memcpy(&value, place, sizeof value);
        else
            memcpy(&number, place, sizeof number);
        worker_field_add_integer(line, fields[i].key, value + number);
    }
}

int case_fields_read(const case_field *fields, size_t count, const char *line, void *item) {
    for (size_t i = 0; i < count; i++) {
        char *const place = (char *)item + fields[i].offset;
        const int64_t value = worker_field_integer(line, fields[i].key, INT64_MIN);
        const int32_t number = (int32_t)value;
        if (value == INT64_MIN || value < fields[i].least || value > fields[i].most)
            return -1;
        if (fields[i].size == sizeof value)
            memcpy(place, &value, sizeof value);
        else
            memcpy(place, &number, sizeof number);
    }
    return 0;
}

int case_name_find(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}
