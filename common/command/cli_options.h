/*
 * Command-line options of every `tandem` command: one table per command gives the parsing, the
 * checks, the refusals and the text of --help. --help, -h and --version come with every command.
 */
#ifndef TANDEM_COMMON_COMMAND_CLI_OPTIONS_H
#define TANDEM_COMMON_COMMAND_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* Exit codes that scripts rely on. */
enum {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,
    CLI_EXIT_USAGE = 2,
    CLI_EXIT_NO_DEVICE = 3
};

/* What an option's value is, and the type its target points to. */
typedef enum cli_kind {
    CLI_FLAG,   /* no value; int, set to 1 */
    CLI_TEXT,   /* any text but the empty one; const char *, points into argv */
    CLI_TEXTS,  /* the same, each time that the option is given; cli_texts */
    CLI_COUNT,  /* whole number within [minimum, maximum]; int64_t */
    CLI_NUMBER, /* finite number within [minimum, maximum]; double */
    CLI_BYTES,  /* whole number with an optional K, M or G (powers of 1024); int64_t, bounded too */
    CLI_CHOICE, /* one word of choices; const char *, points into argv */
    CLI_CHOICES /* comma-separated words of choices, each once; const char *, points into argv */
} cli_kind;

enum {
    CLI_MOST_TEXTS = 32
};

/* Values of an option that may be given several times, in that order. */
typedef struct cli_texts {
    const char *items[CLI_MOST_TEXTS]; /* point into argv */
    size_t count;
} cli_texts;

typedef struct cli_option {
    const char *name; /* without the leading dashes */
    cli_kind kind;
    void *target;        /* written only when the option is given: set the default before */
    const char *value;   /* word for the value in the help, e.g. "FILE"; unused by CLI_FLAG */
    const char *help;    /* one sentence without a full stop */
    const char *choices; /* words separated by '|', for CLI_CHOICE and CLI_CHOICES */
    double minimum;      /* both zero: non-negative */
    double maximum;
} cli_option;

/* Options that several commands share: one row each in their tables. */
#define CLI_DEVICE_OPTION(target)                                                                  \
    {                                                                                              \
        "device", CLI_TEXT, target, "DEVICE", "index or part of backend/driver-family/name", NULL, \
            0, 0                                                                                   \
    }
#define CLI_JSON_OPTION(target)                                                                    \
    {                                                                                              \
        "json", CLI_TEXT, target, "FILE",                                                          \
            "write the results, - for stdout (without the table then)", NULL, 0, 0                 \
    }

typedef struct cli_command {
    const char *name;      /* "tandem bench gemm" */
    const char *summary;   /* one line */
    const char *arguments; /* "MODEL", "[MODEL]", or NULL where the command takes none */
    int min_arguments;
    int max_arguments;
    const cli_option *options;
    size_t option_count;
    const char *notes; /* printed under the options, may be NULL */
} cli_command;

/* The members `options` and `option_count` of a command, of an array. */
#define CLI_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

/* One row of a table of commands. `run` gets its own name in argv[0]. */
typedef struct cli_entry {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} cli_entry;

typedef enum cli_outcome {
    CLI_RUN,    /* go on */
    CLI_DONE,   /* --help or --version was answered: exit 0 */
    CLI_REFUSED /* the refusal stands on stderr: exit 2 */
} cli_outcome;

/*
 * Parse argv (argv[0] is skipped). Words that are no options are left in argv[*first ..
 * argc-1]; their number has been checked. `first` may be NULL where the command takes none.
 */
cli_outcome cli_parse(const cli_command *command, int argc, char **argv, int *first);

/* Exit code of an outcome that is not CLI_RUN. */
int cli_exit_code(cli_outcome outcome);

/*
 * Run the row that argv[1] names, or answer --help, -h and --version. "help" in front of a command is
 * --help behind it. `name` is the command so far, e.g. "tandem bench". Returns the exit code.
 */
int cli_dispatch(const char *name, const char *summary, const cli_entry *entries, size_t count,
                 int argc, char **argv);

/* Whoever wants to see all commands and their options: the completions of shells, the manual page. */
typedef struct cli_visitor {
    void (*group)(void *user, const char *name, const char *summary, const cli_entry *entries,
                  size_t count);
    void (*command)(void *user, const cli_command *command);
    void *user;
} cli_visitor;

/*
 * Show the visitor every group and every command of the program `run`, in the order of their help. It works by asking each
 * command for its help: until this returns, the visitor gets that instead of standard output.
 */
void cli_visit(int (*run)(int argc, char **argv), const cli_visitor *visitor);

/* The visitor that goes round now; NULL: none. For cli_parse and cli_dispatch. */
const cli_visitor *cli_visitor_now(void);

/* Print the version, the commit and the backends on one line. */
void cli_print_version(const char *command);

/* Finds the word that somebody most likely meant. */
typedef struct nearest_word {
    const char *given;
    const char *best; /* NULL until a word is near enough */
    size_t distance;  /* of `best` */
} nearest_word;

/* Takes `word` as the best one if fewer letters differ than before, and at most two. */
void nearest_word_try(nearest_word *nearest, const char *word);

/* Refuse: "<command>: <text>" and a pointer to --help, on stderr. Returns CLI_EXIT_USAGE. */
int cli_refuse(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Next word of a list: copies it to `word` and moves *list behind the separator. Returns 0 at
 * the end of the list, 1 for a word, -1 for a word that is empty or does not fit.
 */
int cli_next_word(const char **list, char separator, char *word, size_t size);

/* Whether `list` (comma-separated) has `word`. */
int cli_list_has(const char *list, const char *word);

/* Keep the words that this program was started with, for results files. Called first in main; the words must stay. */
void command_line_keep(int argc, char *const *argv);

/*
 * A list of texts: the program without the folder it lies in, then its arguments as they were given, with ? in the place of each byte of
 * one that is no plain text. null where nothing was kept. The caller owns it.
 */
struct cJSON *command_line_json(void);

#endif
