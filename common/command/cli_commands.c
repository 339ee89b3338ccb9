/* Tables of commands: dispatching to one, printing their help, and visiting them all. */
#include "common/command/cli_options.h"

#include <stdio.h>
#include <string.h>

#include <tandem/version.h>

#include "build_info.h"

static const cli_visitor *visitor_now;

const cli_visitor *cli_visitor_now(void) {
    return visitor_now;
}

static void ask_for_help(int (*run)(int argc, char **argv), const char *name) {
    char word[64];
    char option[] = "--help";
    char *argv[] = {word, option, NULL};
    snprintf(word, sizeof word, "%s", name);
    run(2, argv);
}

void cli_visit(int (*run)(int argc, char **argv), const cli_visitor *visitor) {
    visitor_now = visitor;
    ask_for_help(run, "tandem");
    visitor_now = NULL;
}

void cli_print_version(const char *command) {
    printf("%s %d.%d.%d, commit %s, backends %s\n", command, TDM_VERSION_MAJOR, TDM_VERSION_MINOR,
           TDM_VERSION_PATCH, TANDEM_BUILD_COMMIT, TANDEM_BUILD_BACKENDS);
}

static void print_commands(const char *name, const char *summary, const cli_entry *entries,
                           size_t count) {
    printf("%s - %s\n\nusage: %s COMMAND [options]\n\ncommands:\n", name, summary, name);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].summary != NULL)
            printf("  %-12s %s\n", entries[i].name, entries[i].summary);
    }
    printf("\n'%s COMMAND --help' describes a command; --version prints the version.\n"
           "Exit codes: 0 done, 1 failed or a check failed, 2 wrong usage, 3 no such device.\n",
           name);
}

static void answer_help(const char *name, const char *summary, const cli_entry *entries,
                        size_t count) {
    if (visitor_now == NULL) {
        print_commands(name, summary, entries, count);
        return;
    }
    visitor_now->group(visitor_now->user, name, summary, entries, count);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].summary != NULL)
            ask_for_help(entries[i].run, entries[i].name);
    }
}

static int refuse_command(const char *name, const cli_entry *entries, size_t count,
                          const char *given) {
    char names[512];
    size_t used = 0;
    nearest_word nearest = {.given = given == NULL ? "" : given};
    names[0] = '\0';
    for (size_t i = 0; i < count && used < sizeof names; i++) {
        if (entries[i].summary == NULL)
            continue;
        nearest_word_try(&nearest, entries[i].name);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ",
                                 entries[i].name);
    }
    if (given == NULL)
        return cli_refuse(name, "a command is missing: %s", names);
    if (strcmp(given, "help") != 0) /* `help help` names no command */
        nearest_word_try(&nearest, "help");
    if (nearest.best != NULL)
        return cli_refuse(name, "unknown command '%s'; did you mean '%s'?", given, nearest.best);
    return cli_refuse(name, "unknown command '%s'; choose one of %s", given, names);
}

/* Returns the row of a name, or NULL. */
static const cli_entry *find_entry(const cli_entry *entries, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, entries[i].name) == 0)
            return &entries[i];
    }
    return NULL;
}

/* Turns "help WORD..." into "WORD... --help", which every command and every group answers. */
static int help_about(const char *name, const cli_entry *entries, size_t count, int argc,
                      char **argv) {
    static char option[] = "--help";
    const cli_entry *const entry = find_entry(entries, count, argv[2]);
    if (entry == NULL || entry->summary == NULL)
        return refuse_command(name, entries, count, argv[2]);
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = option;
    return entry->run(argc - 1, argv + 1);
}

int cli_dispatch(const char *name, const char *summary, const cli_entry *entries, size_t count,
                 int argc, char **argv) {
    if (argc < 2)
        return refuse_command(name, entries, count, NULL);
    if (strcmp(argv[1], "help") == 0 && argc > 2)
        return help_about(name, entries, count, argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        answer_help(name, summary, entries, count);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        cli_print_version(name);
        return CLI_EXIT_OK;
    }
    const cli_entry *const entry = find_entry(entries, count, argv[1]);
    if (entry == NULL)
        return refuse_command(name, entries, count, argv[1]);
    return entry->run(argc - 1, argv + 1);
}
