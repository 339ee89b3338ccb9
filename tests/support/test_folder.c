#include "tests/support/test_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/unit.h"

static char folder[64];

int test_folder_make(void **state) {
    (void)state;
    strcpy(folder, "/tmp/tandem-test-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

int test_folder_remove(void **state) {
    char command[128];
    (void)state;
    chmod(folder, 0700);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int test_folder_remove_empty(void **state) {
    (void)state;
    return rmdir(folder);
}

const char *test_folder(void) {
    return folder;
}

char *test_folder_path(char path[TEST_PATH], const char *name) {
    assert_true(snprintf(path, TEST_PATH, "%s/%s", folder, name) < TEST_PATH);
    return path;
}

int test_folder_count(const char *path) {
    DIR *const entries = opendir(path);
    int count = 0;
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

unsigned char *test_file_read(const char *path, size_t *size) {
    FILE *const stream = fopen(path, "rb");
    assert_non_null(stream);
    fseek(stream, 0, SEEK_END);
    *size = (size_t)ftell(stream);
    rewind(stream);
    unsigned char *const bytes = calloc(1, *size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, stream), *size);
    fclose(stream);
    return bytes;
}

void test_file_write(const char *path, const void *bytes, size_t size) {
    FILE *const stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

void test_text_write(const char *path, const char *text, mode_t mode) {
    test_file_write(path, text, strlen(text));
    assert_int_equal(chmod(path, mode), 0);
}
