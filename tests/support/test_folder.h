/* A temporary folder of a test program, and small files. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_FOLDER_H
#define TANDEM_TESTS_SUPPORT_TEST_FOLDER_H

#include <stddef.h>
#include <sys/types.h>

enum {
    TEST_PATH = 192
};

/* Make the folder: setup of a cmocka group, or called by one. */
int test_folder_make(void **state);
/* Remove it with all that is in it. */
int test_folder_remove(void **state);
/* Remove it, which fails where anything is left in it. */
int test_folder_remove_empty(void **state);

/* Its name, and "<folder>/<name>" written into `path`, which is returned. */
const char *test_folder(void);
char *test_folder_path(char path[TEST_PATH], const char *name);

/* How many entries a folder has whose names begin with no dot. */
int test_folder_count(const char *path);

/* A whole file, with a zero behind it; the caller frees it. */
unsigned char *test_file_read(const char *path, size_t *size);
void test_file_write(const char *path, const void *bytes, size_t size);

/* Write a text, and set who may do what with the file. */
void test_text_write(const char *path, const char *text, mode_t mode);

#endif
