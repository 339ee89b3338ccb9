/*
 * Command-line options of every `tandem` command. One table per command defines the parsing, the
 * checks, the refusals and the text of --help. Every command has --help, -h and --version.
 */
#ifndef TANDEM_COMMON_COMMAND_CLI_OPTIONS_H
#define TANDEM_COMMON_COMMAND_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* Scripts rely on these exit codes. */
enum {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,
    CLI_EXIT_USAGE = 2,
    CLI_EXIT_NO_DEVICE = 3
};

/* The kind of an option's value, and the type that its target points to. */
typedef enum cli_kind {
    CLI_FLAG,   /* no value; int, set to 1 */
    CLI_TEXT,   /* any text except the empty one; const char *, points into argv */
    CLI_TEXTS,  /* as CLI_TEXT, but may be given several times; cli_texts */
    CLI_COUNT,  /* whole number within [minimum, maximum]; int64_t */
    CLI_NUMBER, /* finite number within [minimum, maximum]; double */
    CLI_BYTES,  /* whole number with an optional K, M or G (powers of 1024); int64_t, bounded too */
    CLI_CHOICE, /* one word of choices; const char *, points into argv */
    CLI_CHOICES /* comma-separated words of choices, each once; const char *, points into argv */
} cli_kind;

enum {
    CLI_MAX_TEXTS = 32
};

/* The values of an option that may be given several times, in the order of the command line. */
typedef struct cli_texts {
    const char *items[CLI_MAX_TEXTS]; /* point into argv */
    size_t count;
} cli_texts;

typedef struct cli_option {
    const char *name; /* without the leading dashes */
    cli_kind kind;
    void *target;        /* written only if the option is given: set the default before */
    const char *value;   /* placeholder of the value in the help, e.g. "FILE"; unused by CLI_FLAG */
    const char *help;    /* one sentence without a full stop */
    const char *choices; /* words separated by '|', for CLI_CHOICE and CLI_CHOICES */
    double minimum;      /* both zero: any non-negative number */
    double maximum;
} cli_option;

/* Options that several commands share, as rows of their tables. */
#define CLI_DEVICE_OPTION(target)                                                                  \
    {                                                                                              \
        "device", CLI_TEXT, target, "DEVICE", "index or part of backend/driver-family/name", NULL, \
            0, 0                                                                                   \
    }
#define CLI_JSON_OPTION(target)                                                                    \
    {                                                                                              \
        "json", CLI_TEXT, target, "FILE",                                                          \
            "write the results as JSON, - for stdout (instead of the table)", NULL, 0, 0           \
    }

typedef struct cli_command {
    const char *name;      /* "tandem bench gemm" */
    const char *summary;   /* one line */
    const char *arguments; /* "MODEL", "[MODEL]", or NULL if the command takes none */
    int min_arguments;
    int max_arguments;
    const cli_option *options;
    size_t option_count;
    const char *notes; /* printed below the options; may be NULL */
} cli_command;

/* Initialises the members `options` and `option_count` of a command from an array. */
#define CLI_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

/* One row of a table of commands. `run` gets its own name in argv[0]. NULL summary: not listed. */
typedef struct cli_entry {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} cli_entry;

typedef enum cli_outcome {
    CLI_RUN,    /* continue with the command */
    CLI_DONE,   /* --help or --version was answered: exit 0 */
    CLI_REFUSED /* the reason is on stderr: exit 2 */
} cli_outcome;

/*
 * Parses argv; argv[0] is skipped. Arguments that are not options are left in argv[*first ..
 * argc-1], and their number is checked. `first` may be NULL if the command takes none.
 */
cli_outcome cli_parse(const cli_command *command, int argc, char **argv, int *first);

/* Returns the exit code of an outcome that is not CLI_RUN. */
int cli_exit_code(cli_outcome outcome);

/*
 * Runs the command that argv[1] names, or answers --help, -h and --version. "help COMMAND" is the
 * same as "COMMAND --help". `name` is the command so far, e.g. "tandem bench". Returns the exit
 * code.
 */
int cli_dispatch(const char *name, const char *summary, const cli_entry *entries, size_t count,
                 int argc, char **argv);

/* A visitor receives all commands and options, to make shell completions or the manual page. */
typedef struct cli_visitor {
    void (*group)(void *user, const char *name, const char *summary, const cli_entry *entries,
                  size_t count);
    void (*command)(void *user, const cli_command *command);
    void *user;
} cli_visitor;

/*
 * Calls the visitor for every group and every command of the program `run`, in the order of their
 * help. It asks each command for its help; until cli_visit returns, the visitor receives that help
 * instead of standard output.
 */
void cli_visit(int (*run)(int argc, char **argv), const cli_visitor *visitor);

/* Returns the visitor of the current cli_visit, or NULL. cli_parse and cli_dispatch use it. */
const cli_visitor *cli_visitor_now(void);

/* Prints the version, the commit and the backends on one line. */
void cli_print_version(const char *command);

/* Finds the word that the user most likely meant. */
typedef struct nearest_word {
    const char *given;
    const char *best; /* NULL until a word is similar enough */
    size_t distance;  /* the edit distance of `best` */
} nearest_word;

/* Makes `word` the best one if its edit distance is smaller than before, and at most two. */
void nearest_word_try(nearest_word *nearest, const char *word);

/* Prints "<command>: <text>" and a pointer to --help on stderr. Returns CLI_EXIT_USAGE. */
int cli_refuse(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Copies the next word of a list to `word` and moves *list after the separator. Returns 0 at the
 * end of the list, 1 for a word, -1 for a word that is empty or does not fit.
 */
int cli_next_word(const char **list, char separator, char *word, size_t size);

/* Returns 1 if `list` (comma-separated) contains `word`. */
int cli_list_has(const char *list, const char *word);

/* Keeps the command line for results files. Call it first in main; the strings must stay valid. */
void command_line_keep(int argc, char *const *argv);

/*
 * Returns a JSON list: the program's name without its folder, then its arguments. In arguments that
 * are not plain text, each non-printable or non-ASCII byte is replaced with '?'. Returns a JSON
 * null if no command line was kept. The caller owns the result.
 */
struct cJSON *command_line_json(void);

#endif
