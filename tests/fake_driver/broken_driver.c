/*
 * This driver would take a program down. The variable BROKEN_DRIVER selects its behaviour when its
 * platforms are queried: crash, abort, exit, hang, spin, print, close. With the prefix "load-" it
 * does so while it is loaded. With another word, or none, it lists no platforms and does no harm.
 * It does no harm either if it is compiled with HARMLESS.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

static void do_harm(const char *how) {
    static volatile int spinning = 1;
    if (strcmp(how, "crash") == 0) {
        // AddressSanitizer would turn the signal into an exit, so its handler is removed.
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "exit") == 0)
        exit(0);
    else if (strcmp(how, "hang") == 0)
        for (;;)
            pause();
    else if (strcmp(how, "spin") == 0)
        while (spinning) {
        }
    else if (strcmp(how, "print") == 0)
        printf("noise of the driver\n");
    else if (strcmp(how, "close") == 0)
        close(STDOUT_FILENO);
}

static const char *chosen(void) {
#ifdef HARMLESS
    return "";
#else
    const char *const word = getenv("BROKEN_DRIVER");
    return word ? word : "";
#endif
}

__attribute__((constructor)) static void load(void) {
    if (strncmp(chosen(), "load-", 5) == 0)
        do_harm(chosen() + 5);
}

static cl_int list_platforms(cl_uint *count) {
    do_harm(chosen());
    if (count)
        *count = 0;
    return CL_PLATFORM_NOT_FOUND_KHR;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms,
                                                 cl_uint *count) {
    (void)entries, (void)platforms;
    return list_platforms(count);
}

CL_API_ENTRY cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint entries, cl_platform_id *platforms,
                                                       cl_uint *count) {
    (void)entries, (void)platforms;
    return list_platforms(count);
}

CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name) {
    void *found = NULL;
    __typeof__(&clIcdGetPlatformIDsKHR) const function = clIcdGetPlatformIDsKHR;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        memcpy(&found, &function, sizeof found);
    return found;
}
