/* A suite of `tandem report` is a command of `tandem bench` that outputs a results file. */
#ifndef TANDEM_BENCH_REPORT_REPORT_SUITE_H
#define TANDEM_BENCH_REPORT_REPORT_SUITE_H

struct cJSON;

enum {
    REPORT_MAX_WORDS = 24
};

typedef struct report_suite {
    const char *name;
    double seconds; /* approximate duration, used to divide the time and to estimate the rest */
    double quick_seconds;
    const char *words[REPORT_MAX_WORDS]; /* arguments of the program, NULL-terminated */
    const char *quick[REPORT_MAX_WORDS]; /* arguments for --quick; empty: left out */
} report_suite;

/*
 * The suites that `tandem report` runs, in this order. Several may share a name, by which a user
 * selects all of them.
 */
extern const report_suite report_suites[];
extern const int report_suite_count;

typedef struct suite_outcome {
    struct cJSON *document; /* of schema tandem-bench/1, owned; NULL: none */
    int exit_code;          /* of the command; -1: it could not be run or printed no results */
    double seconds;
    char command[512]; /* as a user would type it */
} suite_outcome;

/* One run of a suite. */
typedef struct suite_task {
    int device; /* index of the device */
    int quick;
    double budget_s; /* after this time, it starts no other case */
} suite_task;

/* Runs the suite. Failures are in the outcome; release it with report_suite_release. */
void report_suite_run(const report_suite *suite, const suite_task *task, suite_outcome *outcome);

void report_suite_release(suite_outcome *outcome);

#endif
