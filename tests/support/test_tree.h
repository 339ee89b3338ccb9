/*
 * These functions return paths of source and build files that tests need. By default they use the
 * folders of compilation. If the programs were copied to another machine, TANDEM_TEST_SOURCE and
 * TANDEM_TEST_BUILD name the folders.
 */
#ifndef TANDEM_TESTS_SUPPORT_TEST_TREE_H
#define TANDEM_TESTS_SUPPORT_TEST_TREE_H

enum {
    TEST_TREE_PATH = 400
};

/* Writes "<folder>/<below>" of the source or build folder into `path` and returns it. */
char *test_tree_source(char path[TEST_TREE_PATH], const char *below);
char *test_tree_build(char path[TEST_TREE_PATH], const char *below);

#endif
