/*
 * `tandem cache`: the folder of compiled OpenCL programs, see TANDEM_CACHE_DIR in tandem/device.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench_commands.h"
#include "common/command/cli_options.h"

static const char command_name[] = "tandem cache";

enum {
    MAX_FOLDER = 4096,
    KEY_DIGITS = 64
};

/* Where the library keeps it; 0 when it is off or has no place. */
static int find_folder(char *folder, size_t size) {
    const char *const chosen = getenv("TANDEM_CACHE_DIR");
    const char *const cache = getenv("XDG_CACHE_HOME");
    const char *const home = getenv("HOME");
    int length = -1;
    if (chosen != NULL && chosen[0] != '\0')
        length = strcmp(chosen, "off") == 0 ? -1 : snprintf(folder, size, "%s", chosen);
    else if (cache != NULL && cache[0] == '/')
        length = snprintf(folder, size, "%s/tandem", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(folder, size, "%s/.cache/tandem", home);
    return length > 0 && (size_t)length < size;
}

/* Only what the library names itself: a SHA-256 key and the suffix of program_cache.h. */
static int is_entry(const char *name) {
    return strspn(name, "0123456789abcdef") == KEY_DIGITS &&
           strcmp(name + KEY_DIGITS, ".tdmprog") == 0;
}

typedef struct cache_totals {
    long files;
    long long bytes;
    long failures;
} cache_totals;

/* The library's verdicts on drivers: cleared too, so that the drivers are tried again. */
#define VERDICT_FILE "driver-verdicts"

/* Count the entries of a folder, and delete them when `clear` is set. */
static cache_totals walk(DIR *folder, int clear) {
    cache_totals totals = {0};
    const int descriptor = dirfd(folder);
    if (clear && unlinkat(descriptor, VERDICT_FILE, 0) != 0 && errno != ENOENT)
        totals.failures++;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat file;
        if (!is_entry(entry->d_name) ||
            fstatat(descriptor, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(file.st_mode))
            continue;
        if (clear && unlinkat(descriptor, entry->d_name, 0) != 0) {
            totals.failures++;
            continue;
        }
        totals.files++;
        totals.bytes += file.st_size;
    }
    return totals;
}

/* The library's own rule: it reads and writes only where nobody else can. NULL where it does. */
static const char *why_not_used(int descriptor) {
    struct stat folder;
    if (fstat(descriptor, &folder) != 0)
        return strerror(errno);
    if (folder.st_uid != geteuid())
        return "the folder belongs to another user";
    if ((folder.st_mode & S_IWOTH) != 0)
        return "everybody may write to the folder";
    return (folder.st_mode & S_IWGRP) != 0 ? "the group may write to the folder" : NULL;
}

static int visit(const char *path, int clear) {
    DIR *const folder = opendir(path);
    if (folder == NULL && errno != ENOENT) {
        fprintf(stderr, "%s: cannot read '%s': %s\n", command_name, path, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    cache_totals totals = {0};
    const char *obstacle = NULL;
    if (folder != NULL) {
        obstacle = why_not_used(dirfd(folder));
        totals = walk(folder, clear);
        closedir(folder);
    }
    printf("%s: %s%ld compiled programs, %.1f MiB\n", path, clear ? "deleted " : "", totals.files,
           (double)totals.bytes / (1024 * 1024));
    if (obstacle != NULL)
        printf("not used: %s\n", obstacle);
    if (totals.failures > 0)
        fprintf(stderr, "%s: %ld files could not be deleted\n", command_name, totals.failures);
    return totals.failures > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int run(const char *action) {
    char folder[MAX_FOLDER];
    const int clear = strcmp(action, "clear") == 0;
    if (!clear && strcmp(action, "show") != 0)
        return cli_refuse(command_name, "unknown action '%s'; choose show or clear", action);
    if (find_folder(folder, sizeof folder))
        return visit(folder, clear);
    puts("the cache is off");
    return CLI_EXIT_OK;
}

int cache_command(int argc, char **argv) {
    int first = 0;
    const cli_command command = {
        .name = command_name,
        .summary = "the folder of compiled OpenCL programs: its place and size, or clear it",
        .arguments = "[show|clear]",
        .max_arguments = 1,
        .notes = "TANDEM_CACHE_DIR names another folder, or turns the cache off when it is 'off'.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    return run(first < argc ? argv[first] : "show");
}
