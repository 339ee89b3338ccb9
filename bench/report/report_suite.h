/* A suite of `tandem report`: a command of `tandem bench` that answers with a results file. */
#ifndef TANDEM_BENCH_REPORT_REPORT_SUITE_H
#define TANDEM_BENCH_REPORT_REPORT_SUITE_H

struct cJSON;

enum {
    REPORT_MAX_WORDS = 24
};

typedef struct report_suite {
    const char *name;
    double seconds; /* about what it takes, to share out the time and to guess what is left of it */
    double quick_seconds;
    const char *words[REPORT_MAX_WORDS]; /* of the command line behind the program, up to NULL */
    const char *quick[REPORT_MAX_WORDS]; /* the same for --quick; nothing: left out there */
} report_suite;

/* What `tandem report` measures, in this order. Several may have one name, by which a user asks for all of them. */
extern const report_suite report_suites[];
extern const int report_suite_count;

typedef struct suite_outcome {
    struct cJSON *document; /* of schema tandem-bench/1, owned; NULL when there is none */
    int exit_code;          /* of the command; -1 when it could not be run or printed no results */
    double seconds;
    char command[512]; /* as a user would type it */
} suite_outcome;

/* A run of a suite. */
typedef struct suite_task {
    int device; /* its index */
    int quick;
    double budget_s; /* after so long it begins no other case */
} suite_task;

/* Run the suite. What goes wrong is in the outcome, which the caller clears with report_suite_release. */
void report_suite_run(const report_suite *suite, const suite_task *task, suite_outcome *outcome);

void report_suite_release(suite_outcome *outcome);

#endif
