#include "tests/support/test_near.h"

#include <math.h>

#include "tests/support/unit.h"

void test_is_near(double value, double expected, double share) {
    if (!(fabs(value - expected) <= share * fabs(expected)))
        fail_msg("%.10g, expected %.10g", value, expected);
}
