/* Implements lists of notes. A note is a text that says what a context or a backend skipped, and
 * gives the reason. */
#include <stdarg.h>
#include <stdio.h>

#include "api/backend.h"

void tdm_notes_add(tdm_notes *notes, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t size = (size_t)notes->count * sizeof(char *);
    char **const texts = tdm_host_realloc((void *)notes->texts, size, size + sizeof(char *));
    if (!texts)
        return;
    notes->texts = texts;
    texts[notes->count] = tdm_host_strdup(text);
    if (texts[notes->count])
        notes->count++;
}

const char *tdm_notes_at(const tdm_notes *notes, int index) {
    return index >= 0 && index < notes->count ? notes->texts[index] : NULL;
}

void tdm_notes_free(tdm_notes *notes) {
    for (int i = 0; i < notes->count; i++)
        tdm_host_free(notes->texts[i]);
    tdm_host_free((void *)notes->texts);
    *notes = (tdm_notes){0};
}
