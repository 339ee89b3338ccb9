/* The log: a callback that receives every message, or the default that TANDEM_LOG filters. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/backend.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static tdm_log_function callback;
static void *callback_user;

void tdm_set_log(tdm_log_function function, void *user) {
    pthread_rwlock_wrlock(&lock);
    callback = function;
    callback_user = user;
    pthread_rwlock_unlock(&lock);
}

/* True if TANDEM_LOG selects messages of this level and topic. */
static bool default_wants(tdm_log_level level, const char *topic) {
    const char *rest = tdm_environment("TANDEM_LOG", false);
    while (rest && *rest) {
        const size_t length = strcspn(rest, ",");
        for (int named = TDM_LOG_ERROR; named <= TDM_LOG_DEBUG; named++)
            if (length == strlen(level_names[named]) &&
                strncmp(rest, level_names[named], length) == 0 && (int)level <= named)
                return true;
        if ((length == strlen(topic) && strncmp(rest, topic, length) == 0) ||
            (length == 3 && strncmp(rest, "all", 3) == 0))
            return true;
        rest += length + (rest[length] == ',');
    }
    return false;
}

bool tdm_log_wanted(tdm_log_level level, const char *topic) {
    pthread_rwlock_rdlock(&lock);
    const bool wanted = callback != NULL;
    pthread_rwlock_unlock(&lock);
    return wanted || default_wants(level, topic);
}

void tdm_log(tdm_log_level level, const char *topic, const char *format, ...) {
    pthread_rwlock_rdlock(&lock);
    const tdm_log_function function = callback;
    void *const user = callback_user;
    pthread_rwlock_unlock(&lock);
    if (!function && !default_wants(level, topic))
        return;

    char message[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (function)
        function(user, level, topic, message);
    else
        fprintf(stderr, "tandem %s %s: %s\n", level_names[level], topic, message);
}
