/* What `tandem monitor` writes of a process: a picture for a terminal, JSON. */
#ifndef TANDEM_CLI_MONITOR_MONITOR_SHOW_H
#define TANDEM_CLI_MONITOR_MONITOR_SHOW_H

#include <stdio.h>

#include "cli/monitor/monitor_read.h"

struct cJSON;

/* Bars and counters of each pool, and who holds most; `wide`: columns of the terminal. */
void monitor_draw(FILE *file, const monitor_process *process, int wide, int tags);

struct cJSON *monitor_json(const monitor_process *process);

#endif
