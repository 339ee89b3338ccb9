#include "common/command/cli_options.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OPTIONS = 30,
    MAX_WORD = 64,
    HELP_VALUE = 1000,
    VERSION_VALUE = 1001
};

int cli_exit_code(cli_outcome outcome) {
    return outcome == CLI_REFUSED ? CLI_EXIT_USAGE : CLI_EXIT_OK;
}

int cli_next_word(const char **list, char separator, char *word, size_t size) {
    const char *const start = *list;
    if (start == NULL)
        return 0;
    const char *const end = strchr(start, separator);
    const size_t length = end == NULL ? strlen(start) : (size_t)(end - start);
    *list = end == NULL ? NULL : end + 1;
    if (length == 0 || length >= size)
        return -1;
    memcpy(word, start, length);
    word[length] = '\0';
    return 1;
}

static int has_word(const char *list, char separator, const char *word) {
    char each[MAX_WORD];
    int found;
    while ((found = cli_next_word(&list, separator, each, sizeof each)) != 0) {
        if (found > 0 && strcmp(each, word) == 0)
            return 1;
    }
    return 0;
}

int cli_list_has(const char *list, const char *word) {
    return list != NULL && has_word(list, ',', word);
}

static void print_option(const char *name, const char *value, const char *help,
                         const char *choices) {
    char head[96];
    snprintf(head, sizeof head, "--%s%s%s", name, value == NULL ? "" : " ",
             value == NULL ? "" : value);
    printf("  %-24s %s", head, help);
    if (choices != NULL)
        printf(" (%s)", choices);
    putchar('\n');
}

/* During cli_visit, the visitor receives the command, and nothing is printed. */
static void answer_help(const cli_command *command) {
    const cli_visitor *const visitor = cli_visitor_now();
    if (visitor != NULL) {
        visitor->command(visitor->user, command);
        return;
    }
    printf("%s - %s\n\nusage: %s [options]%s%s\n\noptions:\n", command->name, command->summary,
           command->name, command->arguments == NULL ? "" : " ",
           command->arguments == NULL ? "" : command->arguments);
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option *const option = &command->options[i];
        print_option(option->name, option->kind == CLI_FLAG ? NULL : option->value, option->help,
                     option->choices);
    }
    print_option("help, -h", NULL, "print this help", NULL);
    print_option("version", NULL, "print the version", NULL);
    if (command->notes != NULL)
        printf("\n%s\n", command->notes);
}

static cli_outcome refuse_value(const cli_command *command, const cli_option *option,
                                const char *value, const char *expected) {
    cli_refuse(command->name, "--%s does not take '%s': %s", option->name, value, expected);
    return CLI_REFUSED;
}

static cli_outcome refuse_choice(const cli_command *command, const cli_option *option,
                                 const char *word) {
    char expected[512];
    snprintf(expected, sizeof expected, "choose %s %s",
             option->kind == CLI_CHOICES ? "among (comma-separated)" : "one of", option->choices);
    return refuse_value(command, option, word, expected);
}

/* Every word must be a choice and occur once. A list with repeats would measure things twice. */
static cli_outcome set_choices(const cli_command *command, const cli_option *option,
                               const char *value) {
    const char *rest = value;
    char word[MAX_WORD];
    int found;
    while ((found = cli_next_word(&rest, ',', word, sizeof word)) != 0) {
        if (found < 0 || !has_word(option->choices, '|', word))
            return refuse_choice(command, option, found < 0 ? value : word);
        if (rest != NULL && cli_list_has(rest, word)) {
            cli_refuse(command->name, "--%s names '%s' twice", option->name, word);
            return CLI_REFUSED;
        }
    }
    *(const char **)option->target = value;
    return CLI_RUN;
}

static void allowed_range(const cli_option *option, double *minimum, double *maximum) {
    const int unbounded = option->minimum == 0 && option->maximum == 0;
    *minimum = option->minimum;
    *maximum = unbounded ? 9.0e15 : option->maximum;
}

/* Returns 1024^n for the suffix K, M or G, 1 for no suffix, and 0 for anything else. */
static double bytes_factor(const char *suffix) {
    static const char letters[] = "KMG";
    if (suffix[0] == '\0')
        return 1;
    const char *const letter = strchr(letters, suffix[0]);
    if (letter == NULL || suffix[1] != '\0')
        return 0;
    return pow(1024, (double)(letter - letters + 1));
}

/* Parses a number; large ones saturate. Returns -1 if it is not of the option's kind. */
static int read_number(const cli_option *option, const char *text, double *number) {
    char *end = NULL;
    if (text[0] == '\0' || strspn(text, "0123456789+-.") == 0)
        return -1;
    *number = option->kind == CLI_NUMBER ? strtod(text, &end) : (double)strtoll(text, &end, 10);
    if (end == text || !isfinite(*number))
        return -1;
    const double factor = option->kind == CLI_BYTES ? bytes_factor(end) : (*end == '\0' ? 1 : 0);
    *number *= factor;
    return factor == 0 ? -1 : 0;
}

static cli_outcome set_number(const cli_command *command, const cli_option *option,
                              const char *value) {
    double number = 0;
    double minimum;
    double maximum;
    char expected[128];
    allowed_range(option, &minimum, &maximum);
    if (read_number(option, value, &number) != 0 || number < minimum || number > maximum) {
        snprintf(expected, sizeof expected, "give a %s from %.10g to %.10g%s",
                 option->kind == CLI_NUMBER ? "number" : "whole number", minimum, maximum,
                 option->kind == CLI_BYTES ? ", optionally followed by K, M or G" : "");
        return refuse_value(command, option, value, expected);
    }
    if (option->kind == CLI_NUMBER)
        *(double *)option->target = number;
    else
        *(int64_t *)option->target = (int64_t)number;
    return CLI_RUN;
}

static cli_outcome set_text(const cli_command *command, const cli_option *option,
                            const char *value) {
    if (value[0] == '\0')
        return refuse_value(command, option, value, "it is empty");
    if (option->kind == CLI_TEXT) {
        *(const char **)option->target = value;
        return CLI_RUN;
    }
    cli_texts *const texts = option->target;
    if (texts->count == CLI_MAX_TEXTS) {
        cli_refuse(command->name, "--%s is given more than %d times", option->name, CLI_MAX_TEXTS);
        return CLI_REFUSED;
    }
    texts->items[texts->count++] = value;
    return CLI_RUN;
}

static cli_outcome set_option(const cli_command *command, const cli_option *option,
                              const char *value) {
    switch (option->kind) {
    case CLI_FLAG:
        *(int *)option->target = 1;
        return CLI_RUN;
    case CLI_TEXT:
    case CLI_TEXTS:
        return set_text(command, option, value);
    case CLI_CHOICE:
        if (!has_word(option->choices, '|', value))
            return refuse_choice(command, option, value);
        *(const char **)option->target = value;
        return CLI_RUN;
    case CLI_CHOICES:
        return set_choices(command, option, value);
    case CLI_COUNT:
    case CLI_NUMBER:
    case CLI_BYTES:
        return set_number(command, option, value);
    }
    return CLI_REFUSED;
}

/* Lists the option names for a refusal, so that the user sees the correct name. */
static void list_options(const cli_command *command, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < command->option_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "--%s, ", command->options[i].name);
    if (used < size)
        snprintf(text + used, size - used, "--help and --version");
}

/* Prints the option that was probably meant, or else all options. */
static void refuse_unknown(const cli_command *command, const char *given) {
    char names[1024];
    char word[MAX_WORD];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    nearest_word nearest = {.given = word + strspn(word, "-")};
    for (size_t i = 0; i < command->option_count; i++)
        nearest_word_try(&nearest, command->options[i].name);
    if (nearest.best != NULL) {
        cli_refuse(command->name, "unknown option '%s'; did you mean '--%s'?", given, nearest.best);
        return;
    }
    list_options(command, names, sizeof names);
    cli_refuse(command->name, "unknown option '%s'; it takes %s", given, names);
}

/*
 * `which` is the answer of getopt, '?' or ':'. For a missing or superfluous value, getopt leaves
 * the row's value in optopt. For an unknown short option it leaves the letter, for an unknown long
 * option zero.
 */
static cli_outcome refuse_option(const cli_command *command, int which, char **argv) {
    char given[MAX_WORD];
    if (optopt > ' ' && optopt < 127)
        snprintf(given, sizeof given, "-%c", optopt);
    else
        snprintf(given, sizeof given, "%s", argv[optind - 1]);
    if (which == ':') {
        cli_refuse(command->name, "%s needs a value", given);
    } else if (optopt != 0 && optopt <= MAX_OPTIONS) {
        cli_refuse(command->name, "%s: the option takes no value", given);
    } else {
        refuse_unknown(command, given);
    }
    return CLI_REFUSED;
}

static cli_outcome check_arguments(const cli_command *command, int argc, char **argv, int *first) {
    const int count = argc - optind;
    if (count > command->max_arguments) {
        cli_refuse(command->name, "unexpected argument '%s'",
                   argv[optind + command->max_arguments]);
        return CLI_REFUSED;
    }
    if (count < command->min_arguments) {
        cli_refuse(command->name, "an argument is missing: %s", command->arguments);
        return CLI_REFUSED;
    }
    if (first != NULL)
        *first = optind;
    return CLI_RUN;
}

/* Fills getopt's table. Option i returns i + 1, which is neither a letter nor zero. */
static void fill_long_options(const cli_command *command, struct option *table) {
    const size_t count = command->option_count < MAX_OPTIONS ? command->option_count : MAX_OPTIONS;
    memset(table, 0, (MAX_OPTIONS + 3) * sizeof *table);
    for (size_t i = 0; i < count; i++) {
        table[i].name = command->options[i].name;
        table[i].has_arg = command->options[i].kind == CLI_FLAG ? no_argument : required_argument;
        table[i].val = (int)i + 1;
    }
    table[count] = (struct option){"help", no_argument, NULL, HELP_VALUE};
    table[count + 1] = (struct option){"version", no_argument, NULL, VERSION_VALUE};
}

cli_outcome cli_parse(const cli_command *command, int argc, char **argv, int *first) {
    struct option table[MAX_OPTIONS + 3];
    fill_long_options(command, table);
    opterr = 0;
    optind = 0; /* forget any earlier parsing */
    for (;;) {
        const int which = getopt_long(argc, argv, ":h", table, NULL);
        if (which == -1)
            return check_arguments(command, argc, argv, first);
        if (which == HELP_VALUE || which == 'h') {
            answer_help(command);
            return CLI_DONE;
        }
        if (which == VERSION_VALUE) {
            cli_print_version(command->name);
            return CLI_DONE;
        }
        if (which == '?' || which == ':')
            return refuse_option(command, which, argv);
        const cli_outcome outcome = set_option(command, &command->options[which - 1], optarg);
        if (outcome != CLI_RUN)
            return outcome;
    }
}
