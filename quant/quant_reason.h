/* The files of quant/ write the reason of a failure with these functions, which are thread-safe. */
#ifndef TANDEM_QUANT_QUANT_REASON_H
#define TANDEM_QUANT_QUANT_REASON_H

#include "quant/schemes.h"

/* Writes the sentence, truncated to the size of reason->text. NULL is accepted. */
void tdm_quant_refuse(tdm_quant_reason *reason, const char *format, ...) TDM_PRINTF(2, 3);

/* Empties the reason; NULL is accepted. */
void tdm_quant_accept(tdm_quant_reason *reason);

#endif
