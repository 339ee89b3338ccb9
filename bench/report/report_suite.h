/* A suite of `tandem report`: a command of this program that runs as a process of its own and answers with a results file. */
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
    int exit_code; /* of the command; -1 when it could not be run, died or printed no results */
    double seconds;
    char command[512]; /* as a user would type it */
    char message[512]; /* the last line of its messages, "" when there is none */
} suite_outcome;

/* A run of a suite. */
typedef struct suite_task {
    int device; /* its index */
    int quick;
    double budget_s; /* after so long it begins no other case */
    double grace_s;  /* so long after that it is stopped: what takes longer hangs */
} suite_task;

/*
 * Run the suite and wait for it. What goes wrong is in the outcome, which the caller clears with report_suite_release. The suite ends
 * with this process, however that ends.
 */
void report_suite_run(const report_suite *suite, const suite_task *task, suite_outcome *outcome);

void report_suite_release(suite_outcome *outcome);

#endif
