/* The words that this program was started with, for results files. */
#ifndef TANDEM_COMMON_COMMAND_COMMAND_LINE_H
#define TANDEM_COMMON_COMMAND_COMMAND_LINE_H

struct cJSON;

/* Called first in main; the words must stay. */
void command_line_keep(int argc, char *const *argv);

/*
 * A list of texts: the program without the folder it lies in, then its arguments as they were given, with ? in the place of each byte of
 * one that is no plain text. null where nothing was kept. The caller owns it.
 */
struct cJSON *command_line_json(void);

#endif
