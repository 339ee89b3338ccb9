/*
 * Lists the driver files that the ICD loader reads, and creates a directory with a selection of
 * them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend_opencl/drivers/driver_check.h"

#define DEFAULT_FOLDER "/etc/OpenCL/vendors"
#define SUFFIX ".icd"
/* Only this many names are read, in sorted order. */
#define MAX_NAMES 1000

/*
 * ocl-icd reads the first two variables; Khronos's loader reads OPENCL_VENDOR_PATH and
 * OCL_ICD_FILENAMES.
 */
static const char vendors_variable[] = "OCL_ICD_VENDORS";
static const char folder_variable[] = "OPENCL_VENDOR_PATH";
static const char libraries_variable[] = "OCL_ICD_FILENAMES";

/* ---- listing --------------------------------------------------------------------------------- */

static bool ends_with_suffix(const char *name) {
    const size_t length = strlen(name);
    return length >= sizeof SUFFIX - 1 && strcmp(name + length - (sizeof SUFFIX - 1), SUFFIX) == 0;
}

/* Reads a file's first line without trailing blanks. Returns false if it is empty or too long. */
static bool read_line(const char *path, char *text, size_t bytes) {
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, bytes);
    if (file >= 0)
        close(file);
    if (got <= 0 || (size_t)got == bytes)
        return false;
    text[got] = '\0';
    size_t length = strcspn(text, "\r\n");
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    text[length] = '\0';
    return length > 0;
}

static void add_file(tdm_driver_files *list, const char *path) {
    if (list->count == TDM_DRIVER_FILES)
        return;
    tdm_driver_file *const file = &list->files[list->count];
    if (snprintf(file->path, sizeof file->path, "%s", path) < (int)sizeof file->path &&
        read_line(path, file->library, sizeof file->library))
        list->count++;
}

static void add_library(tdm_driver_files *list, const char *name, size_t length) {
    if (list->count == TDM_DRIVER_FILES || length == 0 || length >= TDM_DRIVER_TEXT)
        return;
    tdm_driver_file *const file = &list->files[list->count++];
    memcpy(file->path, name, length);
    file->path[length] = '\0';
    memcpy(file->library, file->path, length + 1);
}

static int is_driver_file(const struct dirent *entry) {
    return ends_with_suffix(entry->d_name);
}

static void add_folder(tdm_driver_files *list, const char *folder) {
    struct dirent **names = NULL;
    const int count = scandir(folder, &names, is_driver_file, alphasort);
    for (int i = 0; i < count; i++) {
        char path[TDM_DRIVER_TEXT];
        if (i < MAX_NAMES &&
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) < (int)sizeof path)
            add_file(list, path);
        free(names[i]);
    }
    free(names);
}

/* Adds the value of OCL_ICD_VENDORS, which may be a directory, one file, or a library. */
static void add_named(tdm_driver_files *list, const char *name) {
    struct stat status;
    char path[TDM_DRIVER_TEXT];
    if (stat(name, &status) == 0 && S_ISDIR(status.st_mode))
        add_folder(list, name);
    else if (!ends_with_suffix(name))
        add_library(list, name, strlen(name));
    else if (strchr(name, '/'))
        add_file(list, name);
    else if (snprintf(path, sizeof path, DEFAULT_FOLDER "/%s", name) < (int)sizeof path)
        add_file(list, path);
}

void tdm_driver_files_list(tdm_driver_files *list) {
    const char *const vendors = tdm_environment(vendors_variable, true);
    const char *const folder = tdm_environment(folder_variable, true);
    const char *libraries = tdm_environment(libraries_variable, true);
    list->count = 0;
    if (vendors && *vendors)
        add_named(list, vendors);
    else
        add_folder(list, folder && *folder ? folder : DEFAULT_FOLDER);
    while (libraries && *libraries) {
        const size_t length = strcspn(libraries, ":");
        add_library(list, libraries, length);
        libraries += length + (libraries[length] == ':');
    }
}

/* ---- a folder of selected files -------------------------------------------------------------- */

static bool view_path(const tdm_driver_view *view, int index, char path[TDM_DRIVER_TEXT]) {
    return snprintf(path, TDM_DRIVER_TEXT, "%s/%02d" SUFFIX, view->folder, index) < TDM_DRIVER_TEXT;
}

static bool write_file(const tdm_driver_view *view, int index, const char *library) {
    char path[TDM_DRIVER_TEXT];
    if (!view_path(view, index, path))
        return false;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    const size_t length = strlen(library);
    const bool written = write(file, library, length) == (ssize_t)length;
    return close(file) == 0 && written;
}

static bool sets(const char *variable, const char *name) {
    const size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/*
 * An environment and its two new strings. The memory comes from the C library, because it may
 * outlive all contexts, and with them the user's allocator.
 */
typedef struct environment_block {
    struct environment_block *next;
    char *variables[];
} environment_block;

/* The blocks that are never freed. */
static environment_block *kept;

/* Returns a copy of the environment that names the folder. */
static char **make_environment(const char *folder) {
    size_t count = 0;
    while (environ && environ[count])
        count++;
    const size_t array = (count + 3) * sizeof(char *);
    const size_t text = strlen(folder) + sizeof folder_variable + 1;
    environment_block *const block = malloc(sizeof *block + array + 2 * text);
    if (!block)
        return NULL;
    char *const texts = (char *)block->variables + array;
    size_t used = 0;
    for (size_t i = 0; i < count && environ[i]; i++)
        if (!sets(environ[i], vendors_variable) && !sets(environ[i], folder_variable) &&
            !sets(environ[i], libraries_variable))
            block->variables[used++] = environ[i];
    block->variables[used++] = texts;
    block->variables[used++] = texts + text;
    block->variables[used] = NULL;
    snprintf(texts, text, "%s=%s", vendors_variable, folder);
    snprintf(texts + text, text, "%s=%s", folder_variable, folder);
    return block->variables;
}

static void release_environment(char **variables, bool keep) {
    if (!variables)
        return;
    environment_block *const block =
        (environment_block *)((char *)variables - offsetof(environment_block, variables));
    if (keep) {
        block->next = kept;
        kept = block;
    } else {
        free(block);
    }
}

bool tdm_driver_view_open(tdm_driver_view *view, const tdm_driver_files *list, uint32_t chosen) {
    const char *const temporary = tdm_environment("TMPDIR", true);
    *view = (tdm_driver_view){0};
    const int length = snprintf(view->folder, sizeof view->folder, "%s/tandem-drivers-XXXXXX",
                                temporary && *temporary == '/' ? temporary : "/tmp");
    if (length >= (int)sizeof view->folder || !mkdtemp(view->folder)) {
        tdm_log(TDM_LOG_WARNING, "driver", "opencl: cannot create the folder %s: %s", view->folder,
                strerror(errno));
        return false;
    }
    bool complete = true;
    for (int i = 0; complete && i < list->count; i++)
        if (chosen >> i & 1)
            complete = write_file(view, i, list->files[i].library);
    view->environment = complete ? make_environment(view->folder) : NULL;
    if (view->environment)
        return true;
    tdm_log(TDM_LOG_WARNING, "driver", "opencl: cannot fill the folder %s", view->folder);
    tdm_driver_view_close(view, false);
    return false;
}

void tdm_driver_view_close(tdm_driver_view *view, bool keep) {
    char path[TDM_DRIVER_TEXT];
    for (int i = 0; i < TDM_DRIVER_FILES; i++)
        if (view_path(view, i, path))
            unlink(path);
    rmdir(view->folder);
    release_environment(view->environment, keep);
}
