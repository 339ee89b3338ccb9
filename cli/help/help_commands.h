/* Commands that are made of the other commands' tables. `program` runs the command in argv[1], as main() does. */
#ifndef TANDEM_CLI_HELP_HELP_COMMANDS_H
#define TANDEM_CLI_HELP_HELP_COMMANDS_H

/* `tandem completion`: what a shell needs to complete commands, options and their values. */
int completion_run(int (*program)(int argc, char **argv), int argc, char **argv);

/* `tandem _manual`, which the build calls: the manual page. */
int manual_run(int (*program)(int argc, char **argv), int argc, char **argv);

#endif
