#include "tests/support/test_tree.h"

#include <stdio.h>
#include <stdlib.h>

static char *join(char *path, const char *variable, const char *compiled_in, const char *below) {
    const char *const named = getenv(variable);
    snprintf(path, TEST_TREE_PATH, "%s/%s", named != NULL && named[0] != '\0' ? named : compiled_in,
             below);
    return path;
}

char *test_tree_source(char path[TEST_TREE_PATH], const char *below) {
    return join(path, "TANDEM_TEST_SOURCE", TANDEM_SOURCE_DIR, below);
}

char *test_tree_build(char path[TEST_TREE_PATH], const char *below) {
    return join(path, "TANDEM_TEST_BUILD", TANDEM_BINARY_DIR, below);
}
