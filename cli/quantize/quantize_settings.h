/* The settings of a `tandem quantize` run: its command line, checked for contradictions. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_SETTINGS_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_SETTINGS_H

#include <regex.h>

#include "cli/quantize/quantize_plan.h"
#include "common/command/cli_options.h"

extern const char quantize_command_name[];

typedef struct quantize_settings {
    const char *input;
    const char *output;
    const char *calibrate; /* NULL: no activations */
    const char *observer;
    const char *json; /* NULL: print a table */
    quantize_choice choice;
    regex_t only;
    regex_t skip;
    quantize_exception exceptions[CLI_MAX_TEXTS]; /* `choice` has their number */
} quantize_settings;

/* Prints refusals on stderr. The settings must not move; release them in any case. */
cli_outcome quantize_settings_read(int argc, char **argv, quantize_settings *settings);

void quantize_settings_release(quantize_settings *settings);

#endif
