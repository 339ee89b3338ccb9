/* Tests the search paths of a worker for a library of the CUDA toolkit. A file of this project
 * stands in for the library, under a name that no machine has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/workers/toolkit_library.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

#define DRIVER TANDEM_BINARY_DIR "/lib/" TANDEM_COUNTING_DRIVER

static const char *const names[] = {"clGetPlatformIDs", NULL};
static const toolkit_library wanted = {"tandemtoolkit", "TANDEM_TEST_TOOLKIT", 13, names};

static void expect_found(void) {
    void *function = NULL;
    const char *const reason = toolkit_library_open(&wanted, &function);
    if (reason != NULL)
        fail_msg("%s", reason);
    assert_non_null(function);
}

static void expect_missing(const char *part) {
    void *function = NULL;
    const char *const reason = toolkit_library_open(&wanted, &function);
    if (reason == NULL || strstr(reason, part) == NULL)
        fail_msg("'%s' does not say '%s'", reason != NULL ? reason : "found", part);
}

static void set(const char *variable, const char *below) {
    char path[TEST_PATH];
    setenv(variable, test_folder_path(path, below), 1);
}

/* Creates all folders of the path, below the test's folder. */
static void make_folders(const char *path) {
    char part[TEST_PATH];
    snprintf(part, sizeof part, "%s/%s/", test_folder(), path);
    for (char *slash = strchr(part + strlen(test_folder()) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0700);
        *slash = '/';
    }
}

/* Puts a library with this version number into the folder. */
static void put(const char *folder, int version) {
    char file[TEST_PATH], path[TEST_PATH];
    make_folders(folder);
    snprintf(file, sizeof file, "%s/libtandemtoolkit.so.%d", folder, version);
    assert_int_equal(symlink(DRIVER, test_folder_path(path, file)), 0);
}

static int clear(void **state) {
    (void)state;
    static const char *const variables[] = {"TANDEM_TEST_TOOLKIT", "TANDEM_CUBLAS_PATH",
                                            "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("PATH", "/usr/bin:/bin", 1);
    test_folder_remove(state);
    return test_folder_make(state);
}

TEST_WITH(the_variable_names_it, clear, NULL) {
    expect_missing("TANDEM_TEST_TOOLKIT can name the file");
    set("TANDEM_TEST_TOOLKIT", "nothing.so");
    expect_missing("TANDEM_TEST_TOOLKIT: ");
    setenv("TANDEM_TEST_TOOLKIT", DRIVER, 1);
    expect_found();
}

TEST_WITH(folders_may_be_named, clear, NULL) {
    char list[2 * TEST_PATH];
    make_folders("empty");
    put("b/lib", 13);
    snprintf(list, sizeof list, "%s/empty:%s/*/lib", test_folder(), test_folder());
    setenv("TANDEM_CUBLAS_PATH", list, 1);
    expect_found();
}

TEST_WITH(a_toolkit_may_be_named, clear, NULL) {
    put("toolkit/targets/x86_64-linux/lib", 13);
    set("CUDA_HOME", "toolkit");
    expect_found();
    unsetenv("CUDA_HOME");
    expect_missing("there is no");
    set("CUDA_PATH", "toolkit");
    expect_found();
}

/* The library may be in the packages of a Python that is on PATH. */
TEST_WITH(python_packages_have_it, clear, NULL) {
    put("venv/lib/python3.12/site-packages/nvidia/cu13/lib", 13);
    make_folders("venv/bin");
    expect_missing("there is no");
    set("PATH", "venv/bin");
    expect_found();
}

/* The library may be one version older than the headers, because it has the same functions. An even
 * older one is refused. */
TEST_WITH(the_version_before_will_do, clear, NULL) {
    set("TANDEM_CUBLAS_PATH", "folder");
    put("folder", 11);
    expect_missing("there is no");
    put("folder", 12);
    expect_found();
}

TEST_WITH(a_missing_function_is_reported, clear, NULL) {
    static const char *const other[] = {"clGetPlatformIDs", "tandem_has_no_such_function", NULL};
    const toolkit_library library = {"tandemtoolkit", "TANDEM_TEST_TOOLKIT", 13, other};
    void *functions[2];
    setenv("TANDEM_TEST_TOOLKIT", DRIVER, 1);
    assert_string_equal(toolkit_library_open(&library, functions),
                        "libtandemtoolkit.so has no tandem_has_no_such_function");
}

TEST_MAIN(test_folder_make, test_folder_remove)
