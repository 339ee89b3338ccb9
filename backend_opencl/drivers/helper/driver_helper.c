/*
 * The helper process: opens an OpenCL library, lists its platforms and devices, and reports the
 * result. The backend embeds this program and runs it before it does the same in the user's
 * process; see driver_process.c.
 *
 *     tandem-driver-helper LIBRARY load|platforms
 *
 * The answer goes to descriptor DRIVER_ANSWER: first DRIVER_STARTED, and at the end another letter
 * of driver_answer.h. A driver that ends the process leaves no second letter.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <signal.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend_opencl/drivers/helper/driver_answer.h"

/* More platforms than any machine has. */
#define MAX_PLATFORMS 64

static bool look_up(void *library, const char *name, void *target) {
    void *const found = dlsym(library, name);
    memcpy(target, &found, sizeof found);
    return found != NULL;
}

/* Makes the backend's first calls. Their result codes do not matter; they only have to return. */
static void list_platforms(void *library) {
    __typeof__(&clGetPlatformIDs) get_platforms;
    __typeof__(&clGetDeviceIDs) get_devices;
    if (!look_up(library, "clGetPlatformIDs", &get_platforms) ||
        !look_up(library, "clGetDeviceIDs", &get_devices))
        return;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint count = 0;
    if (get_platforms(MAX_PLATFORMS, platforms, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < MAX_PLATFORMS; i++) {
        cl_uint devices = 0;
        (void)get_devices(platforms[i], CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
    }
}

/*
 * Prevents core files, lets this process end with its parent, and closes the parent's other
 * descriptors.
 */
static void leave_parent(void) {
    const struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(DRIVER_ANSWER, F_SETFD, FD_CLOEXEC);
#ifdef SYS_close_range
    syscall(SYS_close_range, DRIVER_ANSWER + 1, ~0U, 0);
#endif
}

static void send_answer(char letter) {
    if (write(DRIVER_ANSWER, &letter, 1) != 1)
        _exit(1);
}

/* Returns the letter for the state in which the driver left the standard descriptors. */
static char examine(const struct stat before[3], int output) {
    static const char closed[3] = {DRIVER_CLOSED_INPUT, DRIVER_CLOSED_OUTPUT, DRIVER_CLOSED_ERROR};
    struct stat now;
    fflush(stdout);
    for (int i = 0; i < 3; i++)
        if (fstat(i, &now) != 0 || now.st_dev != before[i].st_dev || now.st_ino != before[i].st_ino)
            return closed[i];
    return fstat(output, &now) == 0 && now.st_size > 0 ? DRIVER_PRINTED : DRIVER_FINE;
}

int main(int argc, char **argv) {
    struct stat before[3];
    if (argc != 3)
        return 2;
    leave_parent();
    const int output = memfd_create("output", MFD_CLOEXEC);
    if (output < 0 || dup2(output, STDOUT_FILENO) < 0)
        return 2;
    for (int i = 0; i < 3; i++)
        if (fstat(i, &before[i]) != 0)
            return 2;
    send_answer(DRIVER_STARTED);
    void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library && strcmp(argv[2], "platforms") == 0)
        list_platforms(library);
    send_answer(examine(before, output));
    // exit() is not called, because exit handlers of drivers are not examined and may be slow.
    _exit(0);
}
