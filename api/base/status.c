/* Status texts and the thread's detail text of the last failure. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/backend.h"

#define DETAIL_BYTES 2048

static _Thread_local char detail[DETAIL_BYTES];

const char *tdm_status_text(tdm_status status) {
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        TDM_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *tdm_last_detail(void) {
    return detail;
}

void tdm_set_detail(const char *format, ...) {
    // The text is formatted in a copy first, because an argument may be the old detail.
    char text[DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(detail, text, sizeof detail);
}

tdm_status tdm_fail_prefix(tdm_status status, const char *format, ...) {
    char prefix[DETAIL_BYTES / 4];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    return tdm_fail(status, "%s: %s", prefix, detail);
}

int tdm_version(void) {
    return TDM_VERSION_NUMBER;
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *tdm_version_text(void) {
    return VERSION_TEXT(TDM_VERSION_MAJOR, TDM_VERSION_MINOR, TDM_VERSION_PATCH);
}
