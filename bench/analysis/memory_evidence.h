/*
 * What the rows of a file say of the speed of main memory, and whether all of it can be true of one machine.
 *
 * A sweep's points, rows of reading and the scans beside products of few rows run one kernel, the plain one: of sets that are four times
 * the last cache they differ by what it still serves, a quarter at most. Other rows do more than read: they may be slower, but not much
 * faster. What loops write, a processor may read before; so memory moves those bytes twice at most.
 */
#ifndef TANDEM_BENCH_ANALYSIS_MEMORY_EVIDENCE_H
#define TANDEM_BENCH_ANALYSIS_MEMORY_EVIDENCE_H

#include "bench/record/results_read.h"

/* Sets so many times the last cache are of main memory alone. */
#define EVIDENCE_CACHES 4.0

/* Where no set is as large, or the last cache is not known: those from this share of the largest one on. */
#define EVIDENCE_OF_LARGEST 0.5

/* Speeds that are further apart contradict each other. */
#define EVIDENCE_APART 1.5

typedef enum evidence_kind {
    EVIDENCE_SWEEP,
    EVIDENCE_READ,
    EVIDENCE_SCAN,
    EVIDENCE_COPY,
    EVIDENCE_SCALE,
    EVIDENCE_ADD,
    EVIDENCE_TRIAD,
    EVIDENCE_WRITE,
    EVIDENCE_GEMV,
    EVIDENCE_ELEMENTWISE,
    EVIDENCE_QUANT,
    EVIDENCE_KINDS,
    EVIDENCE_READINGS = EVIDENCE_COPY /* the kinds before only read */
} evidence_kind;

/* The rows of a kind that main memory alone serves. */
typedef struct evidence_group {
    size_t rows;
    size_t elsewhere; /* of them: the processors stood elsewhere than beside most rows */
    double gbs;       /* median of the plain form; NaN: there are no rows */
    double
        most; /* GB/s that reading may have had: by the kernel's fastest form, or with what was written moved twice; infinite: any */
} evidence_group;

typedef struct memory_evidence {
    evidence_group groups[EVIDENCE_KINDS];
    evidence_kind slow; /* the two that are furthest apart, and what is compared of them */
    evidence_kind fast;
    double slow_gbs;
    double fast_gbs;
    double apart; /* NaN: there is nothing to compare */
} memory_evidence;

/* "sweep" … */
const char *memory_evidence_name(evidence_kind kind);

/* What a row of Tandem's tells, if it is ok and pipelined; EVIDENCE_KINDS: nothing of memory. */
evidence_kind memory_evidence_kind(const results_row *row);

/* The bytes that a row touches before it touches them again; NaN: not known. */
double memory_evidence_set(const results_row *row);

/* Whether a row runs the plain form of its kernel, which sweeps and scans have. */
int memory_evidence_is_plain(const results_row *row);

/* The working set from which on rows that read are main memory's alone; infinite where no row reads. */
double memory_evidence_from(const results_file *file);

/* 0, or -1 when memory is short. */
int memory_evidence_find(const results_file *file, memory_evidence *evidence);

int memory_evidence_contradicts(const memory_evidence *evidence);

enum {
    EVIDENCE_TEXT = 1600
};

/*
 * What contradicts itself, what that means, and the speeds of all kinds; an empty text where nothing does. The text has room for
 * EVIDENCE_TEXT characters.
 */
void memory_evidence_text(const memory_evidence *evidence, char *text, size_t size);

#endif
