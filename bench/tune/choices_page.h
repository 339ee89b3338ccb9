/* docs/cuda-choices.md: what the library chooses for GPUs that are not there, as Markdown. */
#ifndef TANDEM_BENCH_TUNE_CHOICES_PAGE_H
#define TANDEM_BENCH_TUNE_CHOICES_PAGE_H

#include <stdio.h>

/* The whole page. -1 where a shape has no plan, which the page then says. The user's tuning file counts, as everywhere. */
int choices_page_write(FILE *file);

#endif
