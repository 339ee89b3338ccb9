/*
 * Host functions in stream order, each run exactly once.
 *
 * A driver runs none in a context that has failed. What the functions own would leak, so the stream lists those that were
 * accepted and not begun, and runs them itself once it is told that the device is lost.
 */
#include "backend_cuda/cuda_internal.h"

typedef struct host_task {
    struct host_task *next;
    tdm_cuda_tasks *tasks;
    void (*function)(void *user);
    void *user;
    bool begun;
} host_task;

struct tdm_cuda_tasks {
    pthread_mutex_t lock;
    pthread_cond_t change; /* of running */
    host_task *first;      /* accepted and not begun, in order */
    host_task *abandoned;  /* run by the stream: a driver that calls late finds out here */
    int running;           /* on threads of the driver */
    bool closed;           /* the stream is gone: the last to run frees this */
};

static tdm_cuda_tasks *tasks_of(tdm_bk_stream *stream) {
    if (stream->tasks)
        return stream->tasks;
    tdm_cuda_tasks *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->change, NULL);
    stream->tasks = made;
    return made;
}

static void free_tasks(tdm_cuda_tasks *tasks) {
    while (tasks->abandoned) {
        host_task *const task = tasks->abandoned;
        tasks->abandoned = task->next;
        tdm_host_free(task);
    }
    pthread_cond_destroy(&tasks->change);
    pthread_mutex_destroy(&tasks->lock);
    tdm_host_free(tasks);
}

static void unlink_task(tdm_cuda_tasks *tasks, const host_task *task) {
    host_task **link = &tasks->first;
    while (*link != task)
        link = &(*link)->next;
    *link = task->next;
}

static bool begin_task(host_task *task) {
    tdm_cuda_tasks *const tasks = task->tasks;
    pthread_mutex_lock(&tasks->lock);
    const bool begins = !task->begun;
    if (begins) {
        task->begun = true;
        unlink_task(tasks, task);
        tasks->running++;
    }
    pthread_mutex_unlock(&tasks->lock);
    return begins;
}

/* What the driver calls. */
static void run_task(void *user) {
    host_task *const task = user;
    tdm_cuda_tasks *const tasks = task->tasks;
    if (!begin_task(task))
        return;
    task->function(task->user);
    tdm_host_free(task);
    pthread_mutex_lock(&tasks->lock);
    tasks->running--;
    pthread_cond_broadcast(&tasks->change);
    const bool last = tasks->closed && tasks->running == 0 && !tasks->first;
    pthread_mutex_unlock(&tasks->lock);
    if (last)
        free_tasks(tasks);
}

void tdm_cuda_tasks_abandon(tdm_cuda_tasks *tasks) {
    if (!tasks)
        return;
    pthread_mutex_lock(&tasks->lock);
    while (tasks->running > 0)
        pthread_cond_wait(&tasks->change, &tasks->lock);
    while (tasks->first) {
        host_task *const task = tasks->first;
        tasks->first = task->next;
        task->begun = true;
        task->next = tasks->abandoned;
        tasks->abandoned = task;
        pthread_mutex_unlock(&tasks->lock);
        task->function(task->user);
        pthread_mutex_lock(&tasks->lock);
    }
    pthread_mutex_unlock(&tasks->lock);
}

void tdm_cuda_tasks_close(tdm_cuda_tasks *tasks) {
    if (!tasks)
        return;
    pthread_mutex_lock(&tasks->lock);
    tasks->closed = true;
    const bool done = tasks->running == 0 && !tasks->first;
    pthread_mutex_unlock(&tasks->lock);
    if (done)
        free_tasks(tasks);
}

static void append_task(tdm_cuda_tasks *tasks, host_task *task) {
    pthread_mutex_lock(&tasks->lock);
    host_task **link = &tasks->first;
    while (*link)
        link = &(*link)->next;
    *link = task;
    pthread_mutex_unlock(&tasks->lock);
}

/* The driver refused it, so nobody runs it. */
static void drop_task(host_task *task) {
    pthread_mutex_lock(&task->tasks->lock);
    unlink_task(task->tasks, task);
    pthread_mutex_unlock(&task->tasks->lock);
    tdm_host_free(task);
}

tdm_status tdm_cuda_host_task(tdm_bk_stream *stream, const char *operation,
                              void (*function)(void *user), void *user) {
    tdm_cuda_tasks *const tasks = tasks_of(stream);
    host_task *const task = tasks ? tdm_host_calloc(1, sizeof *task) : NULL;
    if (!task)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", operation);
    *task = (host_task){.tasks = tasks, .function = function, .user = user};
    append_task(tasks, task); // before the driver knows of it, which may run it at once
    const tdm_status status = tdm_cuda_enter(stream->device, operation);
    if (status != TDM_OK) {
        drop_task(task);
        return status;
    }
    const CUresult code =
        CUDA_CALL(stream->device->api, cuLaunchHostFunc, stream->stream, run_task, task);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS) {
        drop_task(task);
        return tdm_cuda_enqueue_fail(stream, code, operation, "cuLaunchHostFunc");
    }
    tdm_cuda_stream_note(stream, operation);
    return TDM_OK;
}
