/*
 * This header has the status codes, the detail text of the last failure, the log callback and the
 * host allocation hooks.
 *
 * Every fallible function of Tandem returns a tdm_status. Its result is stored through the last
 * out-pointer, which is set to NULL (or zero) on failure. The library never prints, aborts or
 * exits.
 *
 * A struct that may grow starts with struct_size, which the caller sets to sizeof the struct. Later
 * versions add members at the end.
 *
 * An input struct (options, descriptions, arguments) may be shorter than the library's own. Missing
 * members then count as zero. A longer struct is accepted if its extra bytes are zero. Otherwise it
 * is refused with TDM_BAD_ARGUMENT.
 *
 * An output struct (tdm_device_info, tdm_memory_stats) is filled up to the caller's size. Members
 * that the library does not know are set to zero.
 */
#ifndef TANDEM_STATUS_H
#define TANDEM_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/version.h>

#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#define TDM_PRINTF(format_index, first_index)                                                      \
    __attribute__((format(printf, format_index, first_index)))
#else
#define TDM_API
#define TDM_PRINTF(format_index, first_index)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The columns are the name, the value and a short text. Values never change. Each kind of failure
 * has a range of values with gaps, so that similar codes can be added later. Only zero means
 * success. */
#define TDM_STATUS_LIST(X)                                                                         \
    X(TDM_OK, 0, "success")                                                                        \
    X(TDM_BAD_ARGUMENT, 10, "bad argument")                                                        \
    X(TDM_BAD_SHAPE, 12, "bad shape")                                                              \
    X(TDM_BAD_DTYPE, 14, "bad data type")                                                          \
    X(TDM_BAD_STATE, 16, "bad state")                                                              \
    X(TDM_UNSUPPORTED, 20, "unsupported")                                                          \
    X(TDM_NO_DEVICE, 30, "no device")                                                              \
    X(TDM_OUT_OF_HOST_MEMORY, 40, "out of host memory")                                            \
    X(TDM_OUT_OF_DEVICE_MEMORY, 42, "out of device memory")                                        \
    X(TDM_OVER_BUDGET, 44, "over the memory budget")                                               \
    X(TDM_BUILD_FAILED, 50, "kernel build failed")                                                 \
    X(TDM_DEVICE_LOST, 60, "device lost")                                                          \
    X(TDM_IO_ERROR, 70, "input/output error")                                                      \
    X(TDM_CORRUPT_DATA, 72, "corrupt data")                                                        \
    X(TDM_INTERNAL, 90, "internal error")

typedef enum tdm_status {
#define TDM_STATUS_ENUM(name, value, text) name = value,
    TDM_STATUS_LIST(TDM_STATUS_ENUM)
#undef TDM_STATUS_ENUM
} tdm_status;

/* Returns the short text of a code, e.g. "bad shape", or "unknown status" for any other number. The
 * text is never NULL. Static storage. Thread-safe. Since 0.1. */
TDM_API const char *tdm_status_text(tdm_status status);

/*
 * Returns the detail text of the last failure in the calling thread. It names the function, the
 * argument, its value and the driver's own code, e.g. "gemm: K of A is 512 but K of B is 500". The
 * text is empty before the first failure, and a successful call leaves it unchanged.
 *
 * The text is never NULL. The library owns it, and it is valid until the next failing call of the
 * thread. Thread-safe (thread-local). Since 0.1.
 */
TDM_API const char *tdm_last_detail(void);

/* Returns the version of the loaded library as a number, like TDM_VERSION_NUMBER. Thread-safe.
 * Since 0.1. */
TDM_API int tdm_version(void);

/* Returns the version of the loaded library as text, e.g. "0.2.0". Static storage. Thread-safe.
 * Since 0.1. */
TDM_API const char *tdm_version_text(void);

/* These are the levels of log messages, the most severe first. */
typedef enum tdm_log_level {
    TDM_LOG_ERROR = 0,
    TDM_LOG_WARNING = 1,
    TDM_LOG_INFO = 2,
    TDM_LOG_DEBUG = 3
} tdm_log_level;

/*
 * A log callback receives one message per call. `topic` is a word such as "dispatch", "tuning",
 * "cache" or "pool". `message` is one line without a newline. Both are valid only during the call.
 *
 * The callback runs in any thread that uses the library, possibly in several at once, and in driver
 * threads. It must not call Tandem.
 */
typedef void (*tdm_log_function)(void *user, tdm_log_level level, const char *topic,
                                 const char *message);

/*
 * Installs a log callback for the process. NULL restores the default log, which is silent unless
 * the environment variable TANDEM_LOG is set. The callback receives every message, unfiltered.
 *
 * TANDEM_LOG is a comma-separated list of levels ("error", "warning", "info", "debug") and topics
 * ("dispatch", "tuning", "cache", "pool", "driver", "all"). A level selects all messages of that
 * level and of more severe ones. A topic selects all messages of the topic. The default log writes
 * each selected message as a line to standard error.
 *
 * Messages that other threads are sending may still reach the previous callback. Thread-safe. Since
 * 0.1.
 */
TDM_API void tdm_set_log(tdm_log_function function, void *user);

/*
 * The host memory hooks serve every host allocation of the library; drivers use their own
 * allocators. `allocate` returns a block that is aligned for any object, or NULL. `release` accepts
 * NULL. Both receive `user`.
 */
typedef struct tdm_host_allocator {
    size_t struct_size; /* sizeof(tdm_host_allocator) */
    void *user;
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
} tdm_host_allocator;

/*
 * Replaces the host allocator; NULL restores malloc and free. Returns TDM_BAD_STATE, and changes
 * nothing, while a context exists. Returns TDM_BAD_ARGUMENT if a function is missing. It must not
 * be called while another thread creates a context. Since 0.1.
 */
TDM_API tdm_status tdm_set_host_allocator(const tdm_host_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
