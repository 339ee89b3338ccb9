/* Recorded commands: deep copies that replay through the same path as live calls. */
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
    TDM_COMMAND_WRITE_ROWS, /* likewise */
    TDM_COMMAND_READ_ROWS,
    TDM_COMMAND_GRAPH /* a whole recording that the driver holds; never recorded */
} tdm_command_kind;

/* One unit of work on its way to a stream. Pointers are the caller's, or the graph's once recorded.
 */
typedef struct tdm_command {
    tdm_command_kind kind;
    const char *operation;
    bool
        live_only; /* uses host memory that is gone at a replay: refused while the stream records */
    tdm_block *blocks[TDM_MAX_ARGS]; /* that it touches, each once */
    int block_count;
    tdm_block *const *all_blocks; /* instead of `blocks`, for a graph: there may be more */
    union {
        struct {
            tdm_kernel *kernel;
            tdm_launch launch;
        } launch;
        struct {
            uint64_t target_offset,
                source_offset; /* of blocks[0] and blocks[1], or of blocks[0] twice */
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

/* Append a deep copy; keeps the blocks. */
tdm_status tdm_graph_append(tdm_graph *graph, const tdm_command *command);

/* Hand a launch, a copy or a fill to the backend, on a stream of its own. */
tdm_status tdm_command_give(const tdm_backend *api, tdm_bk_stream *stream,
                            const tdm_command *command);

/* Enqueue one command: the stream's lock, failure, recording and edges are handled inside. */
tdm_status tdm_command_enqueue(tdm_stream *stream, const tdm_command *command);

#endif
