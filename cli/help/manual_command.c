/* `tandem _manual` prints the manual page tandem(1), which it makes from the options of every
 * command. */
#include <stdio.h>
#include <string.h>

#include <tandem/status.h>

#include "cli/help/help_commands.h"
#include "common/command/cli_options.h"

/* Writes text in roff. Backslashes and dashes are escaped, and so is a dot or an apostrophe at the
 * start of a line. */
static void put_text(const char *text) {
    int at_start = 1;
    for (; *text != '\0'; text++) {
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        at_start = *text == '\n';
    }
}

static void put_line(const char *text) {
    put_text(text);
    putchar('\n');
}

static void put_section(const char *name, const char *summary) {
    fputs(".SS ", stdout);
    put_line(name);
    put_line(summary);
}

static void write_group(void *user, const char *name, const char *summary, const cli_entry *entries,
                        size_t count) {
    (void)user;
    (void)entries;
    (void)count;
    if (strcmp(name, "tandem") != 0)
        put_section(name, summary);
}

static void put_option(const cli_option *option) {
    fputs(".TP\n.B \\-\\-", stdout);
    put_text(option->name);
    if (option->kind != CLI_FLAG && option->value != NULL) {
        putchar(' ');
        put_text(option->value);
    }
    putchar('\n');
    put_text(option->help);
    const char *choices = option->choices;
    char word[64];
    int found;
    for (int i = 0; (found = cli_next_word(&choices, '|', word, sizeof word)) != 0; i++) {
        fputs(i == 0 ? ": " : ", ", stdout);
        put_text(found > 0 ? word : "");
    }
    putchar('\n');
}

static void write_command(void *user, const cli_command *command) {
    (void)user;
    put_section(command->name, command->summary);
    fputs(".PP\nUsage:\n.B ", stdout);
    put_text(command->name);
    fputs(" [options] ", stdout);
    put_line(command->arguments == NULL ? "" : command->arguments);
    for (size_t i = 0; i < command->option_count; i++)
        put_option(&command->options[i]);
    if (command->notes == NULL)
        return;
    fputs(".PP\n.nf\n", stdout);
    put_line(command->notes);
    fputs(".fi\n", stdout);
}

int manual_run(int (*program)(int argc, char **argv), int argc, char **argv) {
    const cli_visitor visitor = {write_group, write_command, NULL};
    (void)argc;
    (void)argv;
    printf(".TH TANDEM 1 \"\" \"tandem %s\" \"User commands\"\n", tdm_version_text());
    fputs(
        ".ad l\n.SH NAME\ntandem \\- measure and use the OpenCL and CUDA devices of this machine\n"
        ".SH SYNOPSIS\n.B tandem\nCOMMAND [options]\n.br\n.B tandem help\nCOMMAND\n"
        ".SH DESCRIPTION\nThe program of the Tandem tensor library: it lists devices, measures "
        "them,\ncompares and predicts their speed, tunes kernels, and runs and quantizes "
        "models.\n.PP\nEvery command takes\n.BR \\-\\-help\nand\n.BR \\-\\-version .\n"
        ".SH COMMANDS\n",
        stdout);
    cli_visit(program, &visitor);
    fputs(".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nThe command failed, or a check of results "
          "failed.\n.TP\n2\nThe command line is wrong.\n.TP\n3\nThere is no such device.\n",
          stdout);
    return CLI_EXIT_OK;
}
