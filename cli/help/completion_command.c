/*
 * `tandem completion` prints a script for bash or zsh. The script has a table of the words that may
 * follow, keyed by what stands before the cursor: a command ("tandem bench gemm") or one of its
 * options ("tandem bench gemm --dtype"). A function looks the words up.
 */
#include <stdio.h>
#include <string.h>

#include "cli/help/help_commands.h"
#include "common/command/cli_options.h"

static const char command_name[] = "tandem completion";

/*
 * The function skips `help` and follows the words that the table knows. It then offers options
 * after a dash, and file names where the table has no words.
 */
static const char bash_function[] =
    "_tandem() {\n"
    "    local at=tandem i word words head=\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        [[ $word == help && $at == tandem ]] && continue\n"
    "        [[ -n $(_tandem_words \"$at $word\") ]] || break\n"
    "        [[ $word == --* ]] && break\n"
    "        at+=\" $word\"\n"
    "    done\n"
    "    if [[ $previous == --* && $current != -* ]]; then\n"
    "        words=$(_tandem_words \"$at $previous\")\n"
    "        [[ $current == *,* ]] && head=${current%,*},\n"
    "    else\n"
    "        words=$(_tandem_words \"$at\" | tr ' ' '\\n')\n"
    "        [[ $current == -* ]] || words=$(grep -v '^-' <<<\"$words\")\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"${current##*,}\"))\n"
    "}\n"
    "complete -o default -F _tandem tandem\n";

static const char zsh_function[] =
    "_tandem() {\n"
    "    local at=tandem word previous=${words[CURRENT-1]}\n"
    "    local -a reply\n"
    "    for word in ${words[2,CURRENT-1]}; do\n"
    "        [[ $word == help && $at == tandem ]] && continue\n"
    "        reply=()\n"
    "        _tandem_words \"$at $word\"\n"
    "        (( $#reply )) || break\n"
    "        [[ $word == --* ]] && break\n"
    "        at+=\" $word\"\n"
    "    done\n"
    "    reply=()\n"
    "    if [[ $previous == --* && $PREFIX != -* ]]; then\n"
    "        _tandem_words \"$at $previous\"\n"
    "        compset -P '*,'\n"
    "    else\n"
    "        _tandem_words \"$at\"\n"
    "        [[ $PREFIX == -* ]] || reply=(${reply:#-*})\n"
    "    fi\n"
    "    if (( $#reply )); then _describe tandem reply; else _files; fi\n"
    "}\n"
    /* The script is either sourced or autoloaded from the folder of completions at first use. */
    "if [[ $funcstack[1] == _tandem ]]; then _tandem \"$@\"; else compdef _tandem tandem; fi\n";

/* ---- the table ---- */

typedef struct completion_shell {
    const char *row_begin; /* follows the name of the row */
    const char *row_end;
    int has_summaries; /* 1: a word may have a summary after a colon */
} completion_shell;

static const completion_shell bash = {"echo '", "' ;;\n", 0};
static const completion_shell zsh = {"reply=(", ") ;;\n", 1};

static void begin_row(const completion_shell *shell, const char *name, const char *option) {
    printf("    ('%s%s%s') %s", name, option[0] ? " --" : "", option, shell->row_begin);
}

/* The summary is quoted. Its apostrophes and colons are escaped, because they would end it. */
static void put_word(const completion_shell *shell, const char *dashes, const char *word,
                     const char *summary) {
    if (!shell->has_summaries) {
        printf("%s%s ", dashes, word);
        return;
    }
    printf("'%s%s", dashes, word);
    if (summary != NULL)
        putchar(':');
    for (; summary != NULL && *summary != '\0'; summary++) {
        if (*summary == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", *summary == ':' ? "\\" : "", *summary);
    }
    fputs("' ", stdout);
}

static void put_words(const completion_shell *shell, const char *list) {
    char word[64];
    int found;
    while ((found = cli_next_word(&list, '|', word, sizeof word)) != 0) {
        if (found > 0)
            put_word(shell, "", word, NULL);
    }
}

static void put_common_options(const completion_shell *shell) {
    put_word(shell, "--", "help", "print the help");
    put_word(shell, "--", "version", "print the version");
}

static void write_group(void *user, const char *name, const char *summary, const cli_entry *entries,
                        size_t count) {
    const completion_shell *const shell = user;
    (void)summary;
    begin_row(shell, name, "");
    for (size_t i = 0; i < count; i++) {
        if (entries[i].summary != NULL)
            put_word(shell, "", entries[i].name, entries[i].summary);
    }
    put_common_options(shell);
    fputs(shell->row_end, stdout);
}

/* Arguments such as "bash|zsh" are literal words. Others, such as "FILE", are names of files. */
static int has_words(const char *arguments) {
    return arguments != NULL && strchr(arguments, '|') != NULL &&
           strspn(arguments, "abcdefghijklmnopqrstuvwxyz|") == strlen(arguments);
}

static void write_command(void *user, const cli_command *command) {
    const completion_shell *const shell = user;
    begin_row(shell, command->name, "");
    if (has_words(command->arguments))
        put_words(shell, command->arguments);
    for (size_t i = 0; i < command->option_count; i++)
        put_word(shell, "--", command->options[i].name, command->options[i].help);
    put_common_options(shell);
    fputs(shell->row_end, stdout);
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].choices == NULL)
            continue;
        begin_row(shell, command->name, command->options[i].name);
        put_words(shell, command->options[i].choices);
        fputs(shell->row_end, stdout);
    }
}

static void write_script(int (*program)(int argc, char **argv), int is_zsh) {
    completion_shell shell = is_zsh ? zsh : bash;
    const cli_visitor visitor = {write_group, write_command, &shell};
    printf("%s# Written by `tandem completion %s`.\n_tandem_words() {\n    case $1 in\n",
           is_zsh ? "#compdef tandem\n" : "", is_zsh ? "zsh" : "bash");
    cli_visit(program, &visitor);
    printf("    esac\n}\n\n%s", is_zsh ? zsh_function : bash_function);
}

int completion_run(int (*program)(int argc, char **argv), int argc, char **argv) {
    int first = 0;
    const cli_command command = {
        .name = command_name,
        .summary = "print the script that completes commands and options in a shell",
        .arguments = "bash|zsh",
        .min_arguments = 1,
        .max_arguments = 1,
        .notes = "The installed program comes with both. For this shell alone:\n"
                 "  source <(tandem completion bash)",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, &first);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    const int is_zsh = strcmp(argv[first], "zsh") == 0;
    if (!is_zsh && strcmp(argv[first], "bash") != 0)
        return cli_refuse(command_name, "unknown shell '%s'; choose bash or zsh", argv[first]);
    write_script(program, is_zsh);
    return CLI_EXIT_OK;
}
