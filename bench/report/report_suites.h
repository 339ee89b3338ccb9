/* What `tandem report` measures: its suites in the order in which they run. */
#ifndef TANDEM_BENCH_REPORT_REPORT_SUITES_H
#define TANDEM_BENCH_REPORT_REPORT_SUITES_H

#include "bench/report/report_suite.h"

enum {
    REPORT_MAX_SUITES = 40
};

/* Several may have one name, by which a user asks for all of them. */
extern const report_suite report_suites[];
extern const int report_suite_count;

#endif
