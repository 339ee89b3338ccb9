/* The bars that bench/gpu_suite measures, one row for each number that Tandem wants to reach on a GPU. */
#ifndef TANDEM_BENCH_ANALYSIS_GPU_BARS_H
#define TANDEM_BENCH_ANALYSIS_GPU_BARS_H

/* How the summary's line of a step ends where gpu_suite had --quick: figures of small shapes, which meet no bar. */
#define GPU_BARS_QUICK "(--quick)"

typedef enum gpu_bar_kind {
    GPU_BAR_STEP,   /* the step went well */
    GPU_BAR_RATIO,  /* time of `other` by that of `impl`, in the same case */
    GPU_BAR_MEAN,   /* the geometric mean of those */
    GPU_BAR_ACROSS, /* time of Tandem's row of the same shape in `other_step` by that of `impl` */
    GPU_BAR_BEST,   /* the highest rate of `impl` by the highest of Tandem's rows of `other_step` */
    GPU_BAR_METRIC, /* the metric `other` of a row */
    GPU_BAR_MEMBER, /* the member `other` of a row */
    GPU_BAR_AGREE /* of what `tandem compare` wrote: its second device's member `other` by the member `begins` */
} gpu_bar_kind;

typedef struct gpu_bar {
    const char *part; /* of the project */
    const char *text;
    gpu_bar_kind kind;
    const char *step;   /* of gpu_suite, whose results STEP.json are */
    const char *suite;  /* of the rows that count */
    const char *begins; /* how their cases begin */
    const char *impl;
    const char *other;
    const char *other_step, *other_begins; /* GPU_BAR_ACROSS, GPU_BAR_BEST */
    double scale;                          /* of what is measured, for people */
    const char *unit;
    double limit; /* in that unit */
    int at_most;  /* the limit is the most that is allowed */
} gpu_bar;

extern const gpu_bar gpu_bars[];
extern const int gpu_bar_count;

#endif
