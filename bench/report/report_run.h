/* The measuring part of `tandem report`: each suite once, in its share of the time. */
#ifndef TANDEM_BENCH_REPORT_REPORT_RUN_H
#define TANDEM_BENCH_REPORT_REPORT_RUN_H

struct cJSON;

typedef struct report_options {
    const char *device;
    const char *from;
    const char *json;
    const char *html;
    const char *suites; /* of a list; NULL: all */
    double budget_s;    /* of all suites together; 0: the default */
    int quick;
} report_options;

/* The suites that a list may name, with | between them. */
#define REPORT_SUITE_CHOICES                                                                       \
    "memory|copies|compute|launch|gemm|gemm-16bit|gemm-quantized|gemv|quant|elementwise|pool|"     \
    "outofcore|loops|sustained"

/*
 * Measure. *root is of schema tandem-report/1, owned by the caller, or NULL; *failures are suites that failed. Returns CLI_EXIT_OK where
 * there is a result, else the exit code after the reason on stderr.
 */
int report_measure(const report_options *options, struct cJSON **root, int *failures);

#endif
