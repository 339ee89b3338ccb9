#include "common/command/device_pick.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command/cli_options.h"

static int contains_ignoring_case(const char *text, const char *part) {
    const size_t length = strlen(part);
    for (; *text != '\0'; text++) {
        size_t same = 0;
        while (same < length && text[same] != '\0' &&
               tolower((unsigned char)text[same]) == tolower((unsigned char)part[same]))
            same++;
        if (same == length)
            return 1;
    }
    return 0;
}

int device_matches(const char *selector, int index, const char *own) {
    if (selector == NULL)
        return 1;
    if (selector[0] == '\0')
        return 0;
    if (selector[strspn(selector, "0123456789")] == '\0')
        return strtol(selector, NULL, 10) == index; /* huge numbers saturate and do not match */
    return own != NULL && contains_ignoring_case(own, selector);
}

int device_next(const tdm_context *context, const char *selector, int start,
                tdm_device_info *info) {
    const int count = tdm_context_device_count(context);
    for (int index = start; index < count; index++) {
        tdm_device_info each = {.struct_size = sizeof each};
        if (tdm_context_device_info(context, index, &each) != TDM_OK)
            continue;
        if (!device_matches(selector, index, each.selector))
            continue;
        if (info != NULL)
            *info = each;
        return index;
    }
    return -1;
}

int device_refuse(const char *command, const char *selector, const tdm_context *context) {
    if (selector == NULL)
        fprintf(stderr, "%s: no device was found\n", command);
    else
        fprintf(stderr, "%s: no device matches '%s'; choose an index or a part of\n", command,
                selector);
    tdm_device_info info = {.struct_size = sizeof info};
    for (int index = device_next(context, NULL, 0, &info); index >= 0;
         index = device_next(context, NULL, index + 1, &info))
        fprintf(stderr, "  %d  %s\n", index, info.selector);
    for (int note = 0; note < tdm_context_note_count(context); note++)
        fprintf(stderr, "  %s\n", tdm_context_note(context, note));
    return CLI_EXIT_NO_DEVICE;
}

int device_report_failure(const char *command, const char *what, tdm_status status) {
    const char *const detail = tdm_last_detail();
    fprintf(stderr, "%s: %s: %s%s%s\n", command, what, tdm_status_text(status),
            detail[0] == '\0' ? "" : ": ", detail);
    return CLI_EXIT_FAILED;
}

int device_pick(const char *command, const char *selector, tdm_context **context, int *index,
                tdm_device_info *info) {
    const tdm_status status = tdm_context_create(NULL, context);
    if (status != TDM_OK)
        return device_report_failure(command, "the library cannot be initialised", status);
    *index = device_next(*context, selector, 0, info);
    if (*index >= 0)
        return CLI_EXIT_OK;
    device_refuse(command, selector, *context);
    tdm_context_destroy(*context);
    *context = NULL;
    return CLI_EXIT_NO_DEVICE;
}
