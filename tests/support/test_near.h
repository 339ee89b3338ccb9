#ifndef TANDEM_TESTS_SUPPORT_TEST_NEAR_H
#define TANDEM_TESTS_SUPPORT_TEST_NEAR_H

/* Fail the running test case unless the value is the expected one but for so small a share of it; NaN is near nothing. */
void test_is_near(double value, double expected, double share);

#endif
