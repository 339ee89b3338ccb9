/* Recorded commands: deep copies that replay through the same code as live calls. */
#ifndef TANDEM_API_DEVICE_GRAPH_H
#define TANDEM_API_DEVICE_GRAPH_H

#include "api/device/core.h"

typedef enum tdm_command_kind {
    TDM_COMMAND_LAUNCH = 1,
    TDM_COMMAND_COPY,
    TDM_COMMAND_FILL,
    TDM_COMMAND_HOST_TASK,
    TDM_COMMAND_WRITE, /* never recorded: host memory may be gone at replay */
    TDM_COMMAND_READ,
    TDM_COMMAND_WRITE_ROWS, /* never recorded, for the same reason */
    TDM_COMMAND_READ_ROWS,
    TDM_COMMAND_GRAPH /* a whole graph held by the driver; never recorded */
} tdm_command_kind;

/* One command for a stream. Its pointers belong to the caller, or to the graph once recorded. */
typedef struct tdm_command {
    tdm_command_kind kind;
    const char *operation;
    /* it cannot be recorded, for example because its host memory may be gone at replay */
    bool live_only;
    tdm_block *blocks[TDM_MAX_ARGS]; /* blocks that it uses, each once */
    int block_count;
    tdm_block *const *all_blocks; /* replaces `blocks` for a graph, which may use more */
    union {
        struct {
            tdm_kernel *kernel;
            tdm_launch launch;
        } launch;
        struct {
            /* offsets into `target` and `source`, which may be the same block */
            uint64_t target_offset, source_offset;
            tdm_block *target, *source;
            size_t bytes;
        } copy;
        struct {
            uint64_t offset;
            size_t bytes;
            unsigned char pattern[8];
            size_t pattern_bytes;
        } fill;
        struct {
            uint64_t offset;
            const void *source; /* write */
            void *target;       /* read */
            size_t bytes;
        } host;
        struct {
            tdm_bk_rows rows;   /* offset: into blocks[0] */
            const void *source; /* write */
            void *target;       /* read */
        } rows;
        tdm_bk_graph *graph;
        struct {
            void (*function)(void *user);
            void *user;
        } task;
    } as;
} tdm_command;

/* Appends a deep copy and retains its blocks. */
tdm_status tdm_graph_append(tdm_graph *graph, const tdm_command *command);

/* Passes a launch, a copy or a fill to the backend on the given native stream. */
tdm_status tdm_command_give(const tdm_backend *api, tdm_bk_stream *stream,
                            const tdm_command *command);

/* Enqueues one command. It handles the stream's lock, failure, recording and dependencies. */
tdm_status tdm_command_enqueue(tdm_stream *stream, const tdm_command *command);

#endif
