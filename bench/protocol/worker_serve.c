#include "bench/protocol/worker_serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/*
 * Keeps the reply pipe private. Text that a library prints on standard output goes to standard
 * error instead of into the protocol. The worker is also killed when its parent dies.
 */
static FILE *claim_reply_pipe(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int descriptor = dup(STDOUT_FILENO);
    if (descriptor < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return NULL;
    return fdopen(descriptor, "w");
}

static void reply_line(FILE *replies, worker_answer answer, const char *text) {
    static const char *const words[] = {"ok", "skip", "fail"};
    fputs(words[answer], replies);
    if (text[0] != ' ')
        fputc(' ', replies); /* fields begin with a blank */
    /* A reason from a library may contain line ends, but a reply is one line. */
    for (; *text != '\0'; text++)
        fputc(*text == '\n' || *text == '\r' ? ' ' : *text, replies);
    fputc('\n', replies);
    fflush(replies);
}

static void greet(const worker_implementation *implementation, void *state, FILE *replies) {
    worker_text greeting = {.length = 0};
    worker_field_add_integer(&greeting, "protocol", WORKER_PROTOCOL);
    worker_field_add(&greeting, "impl", implementation->name);
    if (implementation->identify != NULL)
        implementation->identify(state, &greeting);
    fprintf(replies, "ready%s\n", greeting.text);
    fflush(replies);
}

/* Takes one sample: the seconds per call of `calls` calls. */
static worker_answer time_sample(const worker_implementation *implementation, void *state,
                                 int64_t calls, int wait_each, double *seconds,
                                 worker_text *reply) {
    const double start = now_seconds();
    for (int64_t call = 0; call < calls; call++) {
        worker_answer answer = implementation->enqueue(state, reply);
        const int wait = wait_each || call + 1 == calls;
        if (answer == WORKER_OK && wait && implementation->wait != NULL)
            answer = implementation->wait(state, reply);
        if (answer != WORKER_OK)
            return answer;
    }
    *seconds = (now_seconds() - start) / (double)calls;
    return WORKER_OK;
}

static void serve_run(const worker_implementation *implementation, void *state, const char *request,
                      FILE *replies) {
    static double seconds[WORKER_MAX_SAMPLES];
    worker_text reply = {.length = 0};
    char wait[8];
    const int64_t samples = worker_field_integer(request, "samples", 0);
    const int64_t calls = worker_field_integer(request, "calls", 0);
    worker_field(request, "wait", wait, sizeof wait);
    if (samples < 1 || samples > WORKER_MAX_SAMPLES || calls < 1) {
        reply_line(replies, WORKER_FAIL, "run: samples or calls out of range");
        return;
    }
    for (int64_t sample = 0; sample < samples; sample++) {
        const worker_answer answer = time_sample(
            implementation, state, calls, strcmp(wait, "each") == 0, &seconds[sample], &reply);
        if (answer != WORKER_OK) {
            reply_line(replies, answer, reply.text);
            return;
        }
    }
    fputs("ok", replies);
    for (int64_t sample = 0; sample < samples; sample++)
        fprintf(replies, " %.9e", seconds[sample]);
    fputc('\n', replies);
    fflush(replies);
}

static worker_answer store_output(const worker_implementation *implementation, void *state,
                                  worker_text *reply) {
    const size_t bytes = implementation->output_bytes(state);
    worker_field_add_integer(reply, "bytes", (int64_t)bytes);
    if (bytes == 0)
        return WORKER_OK;
    void *map = MAP_FAILED;
    if (ftruncate(WORKER_OUTPUT_DESCRIPTOR, (off_t)bytes) == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_OUTPUT_DESCRIPTOR, 0);
    if (map == MAP_FAILED) {
        worker_text_set(reply, "the shared file cannot hold %zu bytes", bytes);
        return WORKER_FAIL;
    }
    const worker_answer answer = implementation->output(state, map, reply);
    munmap(map, bytes);
    return answer;
}

static void serve_request(const worker_implementation *implementation, void *state,
                          const char *request, int *prepared, FILE *replies) {
    worker_text reply = {.length = 0};
    worker_answer answer = WORKER_FAIL;
    if (strncmp(request, "describe ", 9) == 0) {
        implementation->release(state);
        answer = implementation->describe(state, request, &reply);
        *prepared = answer == WORKER_OK;
    } else if (!*prepared) {
        worker_text_set(&reply, "the request needs a case first");
    } else if (strncmp(request, "run ", 4) == 0) {
        serve_run(implementation, state, request, replies);
        return;
    } else if (strcmp(request, "result") == 0) {
        answer = store_output(implementation, state, &reply);
    } else {
        worker_text_set(&reply, "unknown request");
    }
    reply_line(replies, answer, reply.text);
}

int worker_serve(const worker_implementation *implementation, void *state) {
    char request[WORKER_MAX_TEXT];
    int prepared = 0;
    FILE *const replies = claim_reply_pipe();
    if (replies == NULL)
        return 1;
    greet(implementation, state, replies);
    while (fgets(request, sizeof request, stdin) != NULL) {
        request[strcspn(request, "\n")] = '\0';
        if (strcmp(request, "quit") == 0)
            break;
        serve_request(implementation, state, request, &prepared, replies);
    }
    implementation->release(state);
    fclose(replies);
    return 0;
}
