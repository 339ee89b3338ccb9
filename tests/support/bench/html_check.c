#include "tests/support/bench/html_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum {
    MAX_DEPTH = 64,
    MAX_TAG = 32
};

static int is_void(const char *tag) {
    return strcmp(tag, "meta") == 0 || strcmp(tag, "!DOCTYPE") == 0;
}

size_t html_check_elements(const char *page) {
    char open[MAX_DEPTH][MAX_TAG];
    size_t depth = 0;
    size_t elements = 0;
    for (const char *at = strchr(page, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *const end = strchr(at, '>');
        const int closes = at[1] == '/';
        char tag[MAX_TAG] = "";
        if (end == NULL || sscanf(at + 1 + closes, "%31[!A-Za-z0-9]", tag) != 1)
            fail_msg("no tag: %.60s", at);
        if (closes) {
            if (depth == 0 || strcmp(open[depth - 1], tag) != 0)
                fail_msg("</%s> closes %s: %.60s", tag, depth == 0 ? "nothing" : open[depth - 1],
                         at);
            depth--;
        } else if (end[-1] != '/' && !is_void(tag)) {
            assert_true(depth < MAX_DEPTH);
            memcpy(open[depth++], tag, sizeof tag);
        }
        elements += !closes;
    }
    if (depth != 0)
        fail_msg("%zu elements are never closed", depth);
    return elements;
}

/* Keeps the page for .ci/run, which runs an HTML checker on all pages that tests make. */
static void keep_page(const char *page) {
    static int count;
    char path[512];
    const char *const folder = getenv("TANDEM_TEST_PAGES");
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%s/%d-%d.html", folder, (int)getpid(), count++);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(page, file);
    assert_int_equal(fclose(file), 0);
}

void html_check_page(const char *page) {
    static const char *const foreign[] = {"http",    "src=",    "href",  "url(",
                                          "@import", "<script", "<link", "<iframe"};
    keep_page(page);
    assert_true(html_check_elements(page) > 20);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strstr(page, foreign[i]) != NULL)
            fail_msg("the page has '%s': %.80s", foreign[i], strstr(page, foreign[i]));
    for (const unsigned char *at = (const unsigned char *)page; *at != 0; at++)
        if (*at < ' ' && *at != '\n')
            fail_msg("the page has the byte %d", *at);
}

void must_have(const char *page, const char *text) {
    if (strstr(page, text) == NULL)
        fail_msg("there is no '%s' in\n%.6000s", text, page);
}

void must_not_have(const char *page, const char *text) {
    if (strstr(page, text) != NULL)
        fail_msg("there is '%s'", text);
}
