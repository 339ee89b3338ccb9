/* These functions make the temporary folder of a test program, and read and write small files. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_FOLDER_H
#define TANDEM_TESTS_SUPPORT_TEST_FOLDER_H

#include <stddef.h>
#include <sys/types.h>

enum {
    TEST_PATH = 192
};

/* Makes the folder. It is a setup function of a cmocka group, or is called by one. */
int test_folder_make(void **state);
/* Removes the folder with everything in it. */
int test_folder_remove(void **state);
/* Removes the folder; fails if anything is left in it. */
int test_folder_remove_empty(void **state);

/* These return the folder's name, and `path` with "<folder>/<name>" written into it. */
const char *test_folder(void);
char *test_folder_path(char path[TEST_PATH], const char *name);

/* Counts the entries of a folder whose names do not begin with a dot. */
int test_folder_count(const char *path);

/* Reads a whole file and appends a zero byte. The caller frees it. */
unsigned char *test_file_read(const char *path, size_t *size);
void test_file_write(const char *path, const void *bytes, size_t size);

/* Writes a text file and sets its permissions. */
void test_text_write(const char *path, const char *text, mode_t mode);

#endif
