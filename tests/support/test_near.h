#ifndef TANDEM_TESTS_SUPPORT_TEST_NEAR_H
#define TANDEM_TESTS_SUPPORT_TEST_NEAR_H

/*
 * Fails the running test case if the relative error of the value exceeds `share`, or if the value
 * is NaN.
 */
void test_is_near(double value, double expected, double share);

#endif
