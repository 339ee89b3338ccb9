/*
 * Commands that print the option tables of all commands in another form. `program` runs the command
 * argv[1], as main() does.
 */
#ifndef TANDEM_CLI_HELP_HELP_COMMANDS_H
#define TANDEM_CLI_HELP_HELP_COMMANDS_H

/* `tandem completion` prints the shell script that completes commands, options and their values. */
int completion_run(int (*program)(int argc, char **argv), int argc, char **argv);

/* `tandem _manual` prints the manual page. The build calls it. */
int manual_run(int (*program)(int argc, char **argv), int argc, char **argv);

#endif
