/*
 * Status codes, the detail text of the last failure, the log callback and the host allocation
 * hooks.
 *
 * Every fallible function of Tandem returns a tdm_status. Results come back through the last
 * out-pointer, which is set to NULL (or zero) on failure. The library never prints, aborts or
 * exits.
 *
 * Structs that grow start with struct_size, which the caller sets to the struct's sizeof. Later
 * versions add members at the end.
 *
 * Input structs (options, descriptions, arguments) may be shorter than the library's own. Missing
 * members count as zero. A longer struct is accepted if its extra bytes are zero. Otherwise it is
 * refused with TDM_BAD_ARGUMENT.
 *
 * Output structs (tdm_device_info, tdm_memory_stats) are filled up to the caller's size. Members
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

/* Columns: name, value, short text. Values never change. Each kind of failure has a range with
 * gaps, so that a later code can be added next to similar ones. Only zero is success. */
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

/* Returns the short text of a code, e.g. "bad shape", or "unknown status" for a number that is not
 * a code. Never NULL; static storage. Thread-safe. Since 0.1. */
TDM_API const char *tdm_status_text(tdm_status status);

/*
 * Returns the detail text of the last failure in the calling thread. It names the function, the
 * argument, its value and the driver's own code, e.g. "gemm: K of A is 512 but K of B is 500". The
 * text is empty before the first failure, and a successful call leaves it unchanged. Never NULL;
 * owned by the library; valid until the thread's next failing call. Thread-safe (thread-local).
 * Since 0.1.
 */
TDM_API const char *tdm_last_detail(void);

/* Returns the version of the loaded library, as TDM_VERSION_NUMBER. Thread-safe. Since 0.1. */
TDM_API int tdm_version(void);

/* Returns the version of the loaded library, e.g. "0.2.0". Static storage. Thread-safe. Since
 * 0.1. */
TDM_API const char *tdm_version_text(void);

/* Levels of log messages, most severe first. */
typedef enum tdm_log_level {
    TDM_LOG_ERROR = 0,
    TDM_LOG_WARNING = 1,
    TDM_LOG_INFO = 2,
    TDM_LOG_DEBUG = 3
} tdm_log_level;

/*
 * Receives one log message. topic is a word such as "dispatch", "tuning", "cache", "pool". message
 * is one line without a newline. Both are valid during the call only.
 *
 * The library calls it from any thread that uses the library, possibly from several at once, and
 * from driver threads. It must not call Tandem.
 */
typedef void (*tdm_log_function)(void *user, tdm_log_level level, const char *topic,
                                 const char *message);

/*
 * Install a log callback for the process. NULL restores the default log, which is silent unless the
 * environment variable TANDEM_LOG is set. The callback receives every message, unfiltered.
 *
 * TANDEM_LOG is a comma-separated list of levels ("error", "warning", "info", "debug") and topics
 * ("dispatch", "tuning", "cache", "pool", "driver", "all"). A level selects every message of that
 * level and above. A topic selects every message of the topic. The default log then writes these
 * messages as lines to standard error.
 *
 * Thread-safe. Messages that other threads are sending may still reach the previous callback. Since
 * 0.1.
 */
TDM_API void tdm_set_log(tdm_log_function function, void *user);

/*
 * Host memory hooks. allocate returns a block aligned for any object, or NULL. release accepts
 * NULL. Both receive user. Every host allocation of the library goes through them. Drivers use
 * their own allocators.
 */
typedef struct tdm_host_allocator {
    size_t struct_size; /* sizeof(tdm_host_allocator) */
    void *user;
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
} tdm_host_allocator;

/*
 * Replace the host allocator; NULL restores malloc and free. This is allowed only while no context
 * exists. Otherwise the call returns TDM_BAD_STATE and changes nothing. TDM_BAD_ARGUMENT if a
 * function is missing. It must not be called while another thread creates a context. Since 0.1.
 */
TDM_API tdm_status tdm_set_host_allocator(const tdm_host_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
