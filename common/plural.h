/* Words beside a count: "1 case is", "2 cases are". */
#ifndef TANDEM_COMMON_PLURAL_H
#define TANDEM_COMMON_PLURAL_H

#include <stddef.h>

static inline const char *plural_s(size_t count) {
    return count == 1 ? "" : "s";
}

static inline const char *plural_are(size_t count) {
    return count == 1 ? "is" : "are";
}

static inline const char *plural_were(size_t count) {
    return count == 1 ? "was" : "were";
}

#endif
