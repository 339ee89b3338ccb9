/*
 * How the files of quant/ fill the sentence of a refusal. Thread-safe.
 */
#ifndef TANDEM_QUANT_QUANT_REASON_H
#define TANDEM_QUANT_QUANT_REASON_H

#include "quant/schemes.h"

/* Write the sentence, cut to the length of the text; NULL is accepted. */
void tdm_quant_refuse(tdm_quant_reason *reason, const char *format, ...) TDM_PRINTF(2, 3);

/* Make it empty; NULL is accepted. */
void tdm_quant_accept(tdm_quant_reason *reason);

#endif
