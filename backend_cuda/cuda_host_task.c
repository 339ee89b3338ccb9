/*
 * Host functions in stream order, each run exactly once.
 *
 * A driver runs no host function in a context that has failed, so the resources of the functions
 * would leak. A list therefore holds the functions that were accepted and have not begun. A stream
 * runs its own functions itself once it finds that the device is lost. If the driver calls run_task
 * later, the task number that it passes is no longer in the list.
 */
#include "backend_cuda/cuda_internal.h"

typedef struct host_task {
    struct host_task *next;
    tdm_cuda_tasks *tasks;
    void (*function)(void *user);
    void *user;
    uintptr_t number; /* unique for the life of the process */
} host_task;

struct tdm_cuda_tasks {
    pthread_cond_t change; /* signals a change of `running` */
    int listed;            /* accepted and not begun */
    int running;           /* running on threads of the driver */
    bool closed;           /* the stream is gone: the last task to end frees this */
};

/* The tasks of all streams, in order. The lock also protects every tdm_cuda_tasks. */
static struct {
    pthread_mutex_t lock;
    host_task *first, **end;
    uintptr_t last_number;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &list.first};

static tdm_cuda_tasks *tasks_of(tdm_bk_stream *stream) {
    if (stream->tasks)
        return stream->tasks;
    tdm_cuda_tasks *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_cond_init(&made->change, NULL);
    stream->tasks = made;
    return made;
}

static void free_tasks(tdm_cuda_tasks *tasks) {
    pthread_cond_destroy(&tasks->change);
    tdm_host_free(tasks);
}

/* True if no stream and no task will use it any more. */
static bool is_done(const tdm_cuda_tasks *tasks) {
    return tasks->closed && tasks->running == 0 && tasks->listed == 0;
}

/*
 * Removes a task from the list and returns it, or NULL if there is none. The task is the first one
 * of `tasks`, or the one of that number if `tasks` is NULL.
 */
static host_task *take_task(uintptr_t number, const tdm_cuda_tasks *tasks) {
    host_task **link = &list.first;
    while (*link && (tasks ? (*link)->tasks != tasks : (*link)->number != number))
        link = &(*link)->next;
    host_task *const task = *link;
    if (!task)
        return NULL;
    *link = task->next;
    if (!task->next)
        list.end = link;
    task->tasks->listed--;
    return task;
}

/* The function that the driver calls. */
static void run_task(void *user) {
    pthread_mutex_lock(&list.lock);
    host_task *const task = take_task((uintptr_t)user, NULL);
    tdm_cuda_tasks *const tasks = task ? task->tasks : NULL;
    if (tasks)
        tasks->running++;
    pthread_mutex_unlock(&list.lock);
    if (!tasks)
        return;
    task->function(task->user);
    tdm_host_free(task);
    pthread_mutex_lock(&list.lock);
    tasks->running--;
    pthread_cond_broadcast(&tasks->change);
    const bool last = is_done(tasks);
    pthread_mutex_unlock(&list.lock);
    if (last)
        free_tasks(tasks);
}

/*
 * Takes the next task. It first waits while the driver is running an earlier one, because tasks run
 * in order. The driver may still call run_task meanwhile.
 */
static host_task *take_in_order(tdm_cuda_tasks *tasks) {
    while (tasks->running > 0)
        pthread_cond_wait(&tasks->change, &list.lock);
    return take_task(0, tasks);
}

void tdm_cuda_tasks_abandon(tdm_cuda_tasks *tasks) {
    if (!tasks)
        return;
    pthread_mutex_lock(&list.lock);
    for (host_task *task = take_in_order(tasks); task; task = take_in_order(tasks)) {
        pthread_mutex_unlock(&list.lock);
        task->function(task->user);
        tdm_host_free(task);
        pthread_mutex_lock(&list.lock);
    }
    pthread_mutex_unlock(&list.lock);
}

void tdm_cuda_tasks_close(tdm_cuda_tasks *tasks) {
    if (!tasks)
        return;
    pthread_mutex_lock(&list.lock);
    tasks->closed = true;
    const bool done = is_done(tasks);
    pthread_mutex_unlock(&list.lock);
    if (done)
        free_tasks(tasks);
}

/*
 * Appends a task and returns its number. Afterwards only the number may be used, because run_task
 * may run and free the task at any time.
 */
static uintptr_t append_task(host_task *task) {
    pthread_mutex_lock(&list.lock);
    const uintptr_t number = task->number = ++list.last_number;
    *list.end = task;
    list.end = &task->next;
    task->tasks->listed++;
    pthread_mutex_unlock(&list.lock);
    return number;
}

/* Drops a task that the driver refused, so that nobody runs it. */
static void drop_task(uintptr_t number) {
    pthread_mutex_lock(&list.lock);
    host_task *const task = take_task(number, NULL);
    pthread_mutex_unlock(&list.lock);
    tdm_host_free(task);
}

tdm_status tdm_cuda_host_task(tdm_bk_stream *stream, const char *operation,
                              void (*function)(void *user), void *user) {
    tdm_cuda_tasks *const tasks = tasks_of(stream);
    host_task *const task = tasks ? tdm_host_calloc(1, sizeof *task) : NULL;
    if (!task)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", operation);
    *task = (host_task){.tasks = tasks, .function = function, .user = user};
    const uintptr_t number = append_task(task); // listed before the driver knows it
    const tdm_status status = tdm_cuda_enter(stream->device, operation);
    if (status != TDM_OK) {
        drop_task(number);
        return status;
    }
    const CUresult code =
        CUDA_CALL(stream->device->api, cuLaunchHostFunc, stream->stream, run_task, (void *)number);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS) {
        drop_task(number);
        return tdm_cuda_enqueue_fail(stream, code, operation, "cuLaunchHostFunc");
    }
    tdm_cuda_stream_note(stream, operation);
    return TDM_OK;
}
