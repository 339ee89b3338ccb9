/*
 * Random mixes: blocks of random sizes that come and go in random order, in waves of more and fewer live ones, on
 * random streams where there are several.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/trace/trace_models.h"
#include "common/random_fill.h"

const char trace_size_names[] = "log|uniform|powers|two|pareto";

typedef struct random_mix {
    const trace_settings *settings;
    trace_data *trace;
    uint32_t *live; /* blocks, the oldest first but for what was taken out of the middle */
    int64_t live_count;
    uint32_t tags[4];
    uint64_t drawn;
} random_mix;

static uint64_t draw(random_mix *mix, uint64_t bound) {
    return random_bits((uint64_t)mix->settings->seed, mix->drawn++) % bound;
}

/* Up to 16 MiB, but for the few larger ones of pareto (up to 256 MiB). Whole numbers alone, so that all machines agree. */
static uint64_t draw_size(random_mix *mix) {
    const char *const sizes = mix->settings->sizes;
    if (strcmp(sizes, "uniform") == 0)
        return 1 + draw(mix, 4 << 20);
    if (strcmp(sizes, "powers") == 0)
        return UINT64_C(256) << draw(mix, 15);
    if (strcmp(sizes, "two") == 0)
        return draw(mix, 10) > 0 ? 1 + draw(mix, 8192) : (2 << 20) + draw(mix, 6 << 20);
    if (strcmp(sizes, "pareto") == 0)
        return (UINT64_C(1) << 42) / ((UINT64_C(1) << 14) + draw(mix, UINT64_C(1) << 32));
    const uint64_t octave = UINT64_C(256) << draw(mix, 16);
    return octave + draw(mix, octave);
}

static void add_block(random_mix *mix) {
    const uint64_t streams = (uint64_t)mix->settings->streams;
    const uint32_t stream = 1 + (uint32_t)draw(mix, streams);
    const uint32_t block = trace_alloc(mix->trace, draw_size(mix), stream, mix->tags[draw(mix, 4)]);
    trace_use(mix->trace, block, stream);
    /* One in four is read by another stream. */
    if (streams > 1 && draw(mix, 4) == 0)
        trace_use(mix->trace, block, 1 + (uint32_t)((stream + draw(mix, streams - 1)) % streams));
    mix->live[mix->live_count++] = block;
}

/* Half of the time the youngest, a quarter the oldest, a quarter any. */
static void drop_block(random_mix *mix) {
    const uint64_t way = draw(mix, 4);
    int64_t place = mix->live_count - 1;
    if (way == 2)
        place = 0;
    if (way == 3)
        place = (int64_t)draw(mix, (uint64_t)mix->live_count);
    trace_free(mix->trace, mix->live[place]);
    memmove(mix->live + place, mix->live + place + 1,
            (size_t)(mix->live_count - 1 - place) * sizeof *mix->live);
    mix->live_count--;
}

void trace_build_random(const trace_settings *settings, trace_data *trace) {
    static const char *const tags[] = {"weights", "activations", "workspace", "other"};
    random_mix mix = {.settings = settings, .trace = trace};
    mix.live = malloc((size_t)(settings->live + 1) * sizeof *mix.live);
    if (mix.live == NULL) {
        trace->short_of_memory = 1;
        return;
    }
    for (int i = 0; i < 4; i++)
        mix.tags[i] = trace_tag(trace, tags[i]);
    int64_t goal = settings->live;
    for (int64_t i = 0; i < settings->operations && !trace->short_of_memory; i++) {
        trace->time_ns += 500 + draw(&mix, 4000);
        if (mix.live_count == goal)
            goal = settings->live / 4 + (int64_t)draw(&mix, (uint64_t)(3 * settings->live / 4 + 1));
        const int grow =
            mix.live_count == 0 || (mix.live_count < goal && draw(&mix, 8) > 0) ||
            (mix.live_count > goal && mix.live_count < settings->live && draw(&mix, 8) == 0);
        if (grow)
            add_block(&mix);
        else
            drop_block(&mix);
    }
    free(mix.live);
}
