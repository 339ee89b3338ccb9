/* Planted faults in driver calls, for tests. Backends call tdm_fault before every driver call. */
#include <stdatomic.h>
#include <string.h>

#include "api/base/base.h"

static struct {
    pthread_mutex_t lock;
    atomic_bool armed;
    const char *call;
    long nth, seen;
    int code;
    bool sticky;
} plan = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tdm_fault_plant(const char *call, long nth, int code, bool sticky) {
    pthread_mutex_lock(&plan.lock);
    plan.call = call;
    plan.nth = nth;
    plan.seen = 0;
    plan.code = code;
    plan.sticky = sticky;
    atomic_store(&plan.armed, true);
    pthread_mutex_unlock(&plan.lock);
}

long tdm_fault_clear(void) {
    pthread_mutex_lock(&plan.lock);
    atomic_store(&plan.armed, false);
    const long seen = plan.seen;
    pthread_mutex_unlock(&plan.lock);
    return seen;
}

bool tdm_fault_lasts(void) {
    if (!atomic_load_explicit(&plan.armed, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&plan.lock);
    const bool lasts = plan.sticky;
    pthread_mutex_unlock(&plan.lock);
    return lasts;
}

int tdm_fault(const char *call) {
    if (!atomic_load_explicit(&plan.armed, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&plan.lock);
    int code = 0;
    if (atomic_load(&plan.armed) && (!plan.call || strcmp(plan.call, call) == 0)) {
        plan.seen++;
        if (plan.seen == plan.nth || (plan.sticky && plan.seen > plan.nth))
            code = plan.code;
    }
    pthread_mutex_unlock(&plan.lock);
    return code;
}
