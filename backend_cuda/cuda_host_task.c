/*
 * Host functions in stream order, each run exactly once.
 *
 * A driver runs none in a context that has failed. What the functions own would leak, so those that were accepted and not begun
 * are listed, and a stream runs its own itself once it is told that the device is lost. A driver that calls after that, however
 * late, names a task by a number that is in the list no more.
 */
#include "backend_cuda/cuda_internal.h"

typedef struct host_task {
    struct host_task *next;
    tdm_cuda_tasks *tasks;
    void (*function)(void *user);
    void *user;
    uintptr_t number; /* none has had it before */
} host_task;

struct tdm_cuda_tasks {
    pthread_cond_t change; /* of running */
    int listed;            /* accepted and not begun */
    int running;           /* on threads of the driver */
    bool closed;           /* the stream is gone: the last to run frees this */
};

/* Of all streams, in order. The lock is that of each tdm_cuda_tasks too. */
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

/* Nobody will come for it any more. */
static bool is_done(const tdm_cuda_tasks *tasks) {
    return tasks->closed && tasks->running == 0 && tasks->listed == 0;
}

/* Off the list: the task of that number, or the first of `tasks` where that is given. NULL: there is none. */
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

/* What the driver calls. */
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

/* The next one in order: none is begun while the driver, which may still call, has one running. */
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

/* Its number, which is the task's name from now on: the driver may run it, and free it, at once. */
static uintptr_t append_task(host_task *task) {
    pthread_mutex_lock(&list.lock);
    const uintptr_t number = task->number = ++list.last_number;
    *list.end = task;
    list.end = &task->next;
    task->tasks->listed++;
    pthread_mutex_unlock(&list.lock);
    return number;
}

/* The driver refused it, so nobody runs it. */
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
    const uintptr_t number = append_task(task); // before the driver knows of it
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
