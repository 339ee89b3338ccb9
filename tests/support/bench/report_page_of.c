#include "tests/support/bench/report_page_of.h"

#include <stdio.h>
#include <string.h>

#include "bench/report/report_page.h"
#include "tests/support/bench/html_check.h"
#include "tests/support/unit.h"

char *report_page_of(const char *text, size_t device) {
    results_file results;
    file_error error;
    char *page = NULL;
    size_t length = 0;
    if (results_read_text("test.json", text, strlen(text), &results, &error) != 0)
        fail_msg("%s", error.text);
    results_put_first(&results, device);
    FILE *const file = open_memstream(&page, &length);
    assert_non_null(file);
    assert_int_equal(report_page_write(file, &results), 0);
    assert_int_equal(fclose(file), 0);
    results_file_release(&results);
    html_check_page(page);
    return page;
}
