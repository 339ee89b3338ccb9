/*
 * Files beside the test programs. They are where these were compiled, or, where the programs were brought to another machine, in the
 * folders that TANDEM_TEST_SOURCE and TANDEM_TEST_BUILD name.
 */
#ifndef TANDEM_TESTS_SUPPORT_TEST_TREE_H
#define TANDEM_TESTS_SUPPORT_TEST_TREE_H

enum {
    TEST_TREE_PATH = 400
};

/* "<folder>/<below>" of the sources and of the build, written into `path`, which is returned. */
char *test_tree_source(char path[TEST_TREE_PATH], const char *below);
char *test_tree_build(char path[TEST_TREE_PATH], const char *below);

#endif
