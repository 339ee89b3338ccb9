/* These functions read and write tuning rows as text: choices, shapes, devices and lines. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tuning/tuning.h"

/* This is the upper limit of sizes and times. It is below 2^53, so that they are exact as
 * doubles. */
#define GREATEST_NUMBER 1000000000000000ll

static const struct parameter_row {
    const char *text;
    int32_t greatest;
} parameter_rows[] = {
#define ROW(name, text, greatest) {text, greatest},
    TDM_TUNE_PARAMETER_LIST(ROW)
#undef ROW
};

const char *tdm_tune_parameter_text(tdm_tune_parameter parameter) {
    return parameter_rows[parameter].text;
}

int32_t tdm_tune_parameter_greatest(tdm_tune_parameter parameter) {
    return parameter_rows[parameter].greatest;
}

/* Writes the reason, followed by the word that was refused. A long word is shortened. Returns
 * `outcome`. */
static tdm_tuning_outcome refuse(tdm_tuning_outcome outcome, char *reason, const char *what,
                                 const char *word) {
    snprintf(reason, TDM_TUNING_REASON, "%s: '%.60s%s'", what, word,
             strlen(word) > 60 ? "..." : "");
    return outcome;
}

/* Reads a decimal number without sign, blanks or leading zeros, from 1 to `greatest`. Returns 0 for
 * any other text. */
static int64_t read_number(const char *text, int64_t greatest) {
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 16 || text[digits] != '\0' || text[0] == '0')
        return 0;
    const long long number = strtoll(text, NULL, 10);
    return number <= greatest ? number : 0;
}

/* Cuts the text at the first of `separators`. Returns the rest, or NULL. */
static char *cut(char *text, const char *separators) {
    char *const end = text + strcspn(text, separators);
    if (*end == '\0')
        return NULL;
    *end = '\0';
    return end + 1;
}

/* ---- choices --------------------------------------------------------------------------------- */

static tdm_tuning_outcome read_parameter(char *word, tdm_choice *choice,
                                         char reason[TDM_TUNING_REASON]) {
    char whole[TDM_CHOICE_TEXT];
    snprintf(whole, sizeof whole, "%s", word);
    const char *const value = cut(word, "=");
    if (!value)
        return refuse(TDM_TUNING_CORRUPT, reason, "a parameter must be NAME=VALUE", whole);
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++) {
        if (strcmp(parameter_rows[i].text, word) != 0)
            continue;
        if (choice->values[i] != 0)
            return refuse(TDM_TUNING_CORRUPT, reason, "the parameter is given twice", word);
        choice->values[i] = (int32_t)read_number(value, parameter_rows[i].greatest);
        return choice->values[i] != 0
                   ? TDM_TUNING_OK
                   : refuse(TDM_TUNING_STALE, reason, "the parameter is out of range", whole);
    }
    return refuse(TDM_TUNING_STALE, reason, "unknown parameter", word);
}

tdm_tuning_outcome tdm_choice_read(const char *text, tdm_choice *choice,
                                   char reason[TDM_TUNING_REASON]) {
    char copy[TDM_CHOICE_TEXT];
    *choice = (tdm_choice){.variant = NULL};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return refuse(TDM_TUNING_CORRUPT, reason, "the variant is too long", text);
    char *rest = cut(copy, ":");
    const tdm_variant *const variant = tdm_variant_find(copy);
    if (!variant)
        return refuse(TDM_TUNING_STALE, reason, "unknown variant", copy);
    while (rest) {
        char *const next = cut(rest, ",");
        const tdm_tuning_outcome outcome = read_parameter(rest, choice, reason);
        if (outcome != TDM_TUNING_OK)
            return outcome;
        rest = next;
    }
    choice->variant = variant;
    return TDM_TUNING_OK;
}

const char *tdm_choice_write(const tdm_choice *choice, char text[TDM_CHOICE_TEXT]) {
    size_t used = (size_t)snprintf(text, TDM_CHOICE_TEXT, "%s", choice->variant->name);
    char separator = ':';
    for (int i = 0; i < TDM_TUNE_PARAMETERS && used < TDM_CHOICE_TEXT; i++) {
        if (choice->values[i] == 0)
            continue;
        used += (size_t)snprintf(text + used, TDM_CHOICE_TEXT - used, "%c%s=%d", separator,
                                 parameter_rows[i].text, (int)choice->values[i]);
        separator = ',';
    }
    return text;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

const char *tdm_tuning_shape_write(const int64_t shape[TDM_TUNING_AXES],
                                   char text[TDM_TUNING_SHAPE_TEXT]) {
    size_t used = 0;
    for (int i = 0; i < TDM_TUNING_AXES && used < TDM_TUNING_SHAPE_TEXT; i++) {
        const char *const times = i == 0 ? "" : "x";
        const size_t room = TDM_TUNING_SHAPE_TEXT - used;
        used += shape[i] == 0
                    ? (size_t)snprintf(text + used, room, "%s*", times)
                    : (size_t)snprintf(text + used, room, "%s%lld", times, (long long)shape[i]);
    }
    return text;
}

/* Reads MxNxK or MxNxKxBATCH. */
static tdm_tuning_outcome read_shape(char *text, int64_t shape[TDM_TUNING_AXES],
                                     char reason[TDM_TUNING_REASON]) {
    char whole[TDM_TUNING_SHAPE_TEXT];
    snprintf(whole, sizeof whole, "%s", text);
    shape[TDM_TUNING_BATCH] = 1;
    int axes = 0;
    for (char *next; text; text = next) {
        next = cut(text, "x");
        const bool any = strcmp(text, "*") == 0;
        const int64_t size = any ? 0 : read_number(text, GREATEST_NUMBER);
        if (axes == TDM_TUNING_AXES || (!any && size == 0))
            return refuse(TDM_TUNING_CORRUPT, reason, "the shape is not MxNxKxBATCH", whole);
        shape[axes++] = size;
    }
    return axes >= TDM_TUNING_BATCH
               ? TDM_TUNING_OK
               : refuse(TDM_TUNING_CORRUPT, reason, "the shape is not MxNxKxBATCH", whole);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* These are the device classes and their requirements. A later class is a closer match. */
static const struct class_row {
    const char *name;
    uint32_t capabilities;
    tdm_device_type type; /* 0: any */
} class_rows[] = {
    {"any", 0, 0},
    {"gpu", 0, TDM_DEVICE_GPU},
    {"cpu", TDM_CAP_CPU_CORES, 0},
    {"cpu-avx2", TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX2, 0},
    {"cpu-avx512", TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX512, 0},
    {"cpu-avx512-bf16", TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX512 | TDM_CAP_HOST_BF16, 0},
};

enum {
    CLASS_ROWS = sizeof class_rows / sizeof class_rows[0],
    RANK_VENDOR = CLASS_ROWS + 1,
    RANK_PATTERN = CLASS_ROWS + 2
};

static const char vendor_prefix[] = "gpu:0x";

/* Reads the number of "gpu:0x10de". Returns 0 for any other text. */
static uint32_t read_vendor(const char *device) {
    const size_t prefix = sizeof vendor_prefix - 1;
    if (strncmp(device, vendor_prefix, prefix) != 0)
        return 0;
    const char *const digits = device + prefix;
    const size_t count = strspn(digits, "0123456789abcdef");
    return count > 0 && count <= 8 && digits[count] == '\0' ? (uint32_t)strtoul(digits, NULL, 16)
                                                            : 0;
}

static int class_index(const char *device) {
    for (int i = 0; i < CLASS_ROWS; i++)
        if (strcmp(class_rows[i].name, device) == 0)
            return i;
    return -1;
}

bool tdm_tuning_device_is_valid(const char *device) {
    return class_index(device) >= 0 || read_vendor(device) != 0 || strchr(device, '/') != NULL;
}

static int hex_digit(char letter) {
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    const int upper = toupper((unsigned char)letter);
    return upper >= 'A' && upper <= 'F' ? upper - 'A' + 10 : -1;
}

/* Gets the pattern's next character. Returns the bytes that it occupies in the pattern. */
static int next_character(const char *pattern, char *character) {
    if (pattern[0] == '%' && hex_digit(pattern[1]) >= 0 && hex_digit(pattern[2]) >= 0) {
        *character = (char)(16 * hex_digit(pattern[1]) + hex_digit(pattern[2]));
        return 3;
    }
    *character = pattern[0];
    return 1;
}

/* True if the text matches the pattern. The search backtracks to the last '*' only, so its time is
 * at most proportional to the product of the lengths. */
static bool fits_pattern(const char *pattern, const char *text) {
    const char *after_star = NULL, *resume = NULL;
    while (*text) {
        char wanted;
        const int length = next_character(pattern, &wanted);
        if (*pattern == '*') {
            after_star = ++pattern;
            resume = text;
        } else if (*pattern && tolower((unsigned char)wanted) == tolower((unsigned char)*text)) {
            pattern += length;
            text++;
        } else if (after_star) {
            pattern = after_star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static int class_rank(int index, const tdm_device_info *info) {
    const struct class_row *const row = &class_rows[index];
    const bool fits = (info->capabilities & row->capabilities) == row->capabilities &&
                      (row->type == 0 || row->type == info->type);
    return fits ? index + 1 : 0;
}

int tdm_tuning_device_rank(const char *device, const tdm_device_info *info) {
    const int index = class_index(device);
    if (index >= 0)
        return class_rank(index, info);
    const uint32_t vendor = read_vendor(device);
    if (vendor != 0)
        return info->type == TDM_DEVICE_GPU && info->vendor_id == vendor ? RANK_VENDOR : 0;
    return fits_pattern(device, info->selector) ? RANK_PATTERN : 0;
}

bool tdm_tuning_device_write(const tdm_device_info *info, char text[TDM_TUNING_DEVICE_TEXT]) {
    size_t used = 0;
    for (const char *c = info->selector; *c; c++) {
        const unsigned char letter = (unsigned char)*c;
        const bool plain = letter > ' ' && letter < 127 && !strchr("*%#", letter);
        used += (size_t)snprintf(text + used, TDM_TUNING_DEVICE_TEXT - used,
                                 plain ? "%c" : "%%%02X", letter);
        if (used >= TDM_TUNING_DEVICE_TEXT)
            return false;
    }
    return used > 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* These are the operations of rows, by their word in the file. */
static const struct operation_row {
    const char *text;
    tdm_op op;
    bool quantize_a, allows_3xtf32;
} operation_rows[] = {
    {"gemm", TDM_OP_GEMM, false, false},
    {"gemm-3xtf32", TDM_OP_GEMM, false, true},
    {"gemm-int", TDM_OP_GEMM_INT, false, false},
    {"gemm-weights", TDM_OP_GEMM_WEIGHTS, false, false},
    {"gemm-weights-a8", TDM_OP_GEMM_WEIGHTS, true, false},
};

enum {
    OPERATION_ROWS = sizeof operation_rows / sizeof operation_rows[0]
};

static tdm_tuning_outcome read_operation(const char *text, tdm_tuning_row *row,
                                         char reason[TDM_TUNING_REASON]) {
    for (int i = 0; i < OPERATION_ROWS; i++) {
        if (strcmp(operation_rows[i].text, text) != 0)
            continue;
        row->op = operation_rows[i].op;
        row->quantize_a = operation_rows[i].quantize_a;
        row->allows_3xtf32 = operation_rows[i].allows_3xtf32;
        return TDM_TUNING_OK;
    }
    return refuse(TDM_TUNING_STALE, reason, "the operation cannot be tuned", text);
}

static const char *operation_text(const tdm_tuning_row *row) {
    for (int i = 0; i < OPERATION_ROWS; i++)
        if (operation_rows[i].op == row->op && operation_rows[i].quantize_a == row->quantize_a &&
            operation_rows[i].allows_3xtf32 == row->allows_3xtf32)
            return operation_rows[i].text;
    return NULL;
}

static bool is_float(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->kind == TDM_CLASS_FLOAT;
}

/* Reads and checks the dtypes. The operations differ in whether A and B are floats. */
static tdm_tuning_outcome read_types(const char *a, const char *b, tdm_tuning_row *row,
                                     char reason[TDM_TUNING_REASON]) {
    row->a = tdm_dtype_from_name(a);
    row->b = tdm_dtype_from_name(b);
    if (row->a == TDM_DTYPE_NONE || row->b == TDM_DTYPE_NONE)
        return refuse(TDM_TUNING_STALE, reason, "unknown dtype", row->a == TDM_DTYPE_NONE ? a : b);
    if (is_float(row->a) != (row->op != TDM_OP_GEMM_INT))
        return refuse(TDM_TUNING_STALE, reason, "the operation does not support this type of A", a);
    if (row->allows_3xtf32 && (row->a != TDM_F32 || row->b != TDM_F32))
        return refuse(TDM_TUNING_STALE, reason, "the operation supports only f32",
                      row->a == TDM_F32 ? b : a);
    if (is_float(row->b) != (row->op == TDM_OP_GEMM))
        return refuse(TDM_TUNING_STALE, reason, "the operation does not support this type of B", b);
    return TDM_TUNING_OK;
}

/* True if the variant can run the row's operation. Weights are multiplied directly, or after
 * conversion to a form that variants of another operation take. */
static bool serves(const tdm_variant *variant, const tdm_tuning_row *row) {
    return variant->op == row->op ||
           (row->op == TDM_OP_GEMM_WEIGHTS &&
            (variant->op == TDM_OP_GEMM || (variant->op == TDM_OP_GEMM_INT && row->quantize_a)));
}

static tdm_tuning_outcome read_choice(const char *text, tdm_tuning_row *row,
                                      char reason[TDM_TUNING_REASON]) {
    const tdm_tuning_outcome outcome = tdm_choice_read(text, &row->choice, reason);
    if (outcome == TDM_TUNING_OK && !serves(row->choice.variant, row))
        return refuse(TDM_TUNING_STALE, reason, "the variant is for another operation", text);
    return outcome;
}

static tdm_tuning_outcome read_time(const char *text, tdm_tuning_row *row,
                                    char reason[TDM_TUNING_REASON]) {
    static const char measured[] = "measured=";
    if (strcmp(text, "not-measured") == 0)
        return TDM_TUNING_OK;
    if (strncmp(text, measured, sizeof measured - 1) == 0)
        row->ns = (uint64_t)read_number(text + sizeof measured - 1, GREATEST_NUMBER);
    return row->ns != 0 ? TDM_TUNING_OK
                        : refuse(TDM_TUNING_CORRUPT, reason,
                                 "the time is neither not-measured nor measured=NANOSECONDS", text);
}

const char *const tdm_tuning_layouts[TDM_TUNING_LAYOUTS] = {"nn", "nt", "tn", "tt", "any"};

static tdm_tuning_outcome read_layout(const char *text, tdm_tuning_row *row,
                                      char reason[TDM_TUNING_REASON]) {
    for (row->layout = 0; row->layout < TDM_TUNING_LAYOUTS; row->layout++)
        if (strcmp(tdm_tuning_layouts[row->layout], text) == 0)
            return TDM_TUNING_OK;
    row->layout = TDM_TUNING_LAYOUT_ANY;
    return refuse(TDM_TUNING_CORRUPT, reason, "the layout is not one of nn, nt, tn, tt, any", text);
}

enum {
    FIELD_DEVICE,
    FIELD_OP,
    FIELD_A,
    FIELD_B,
    FIELD_LAYOUT,
    FIELD_SHAPE,
    FIELD_CHOICE,
    FIELD_TIME,
    FIELDS
};

static tdm_tuning_outcome read_fields(char *const fields[FIELDS], tdm_tuning_row *row,
                                      char reason[TDM_TUNING_REASON]) {
    if (!tdm_tuning_device_is_valid(fields[FIELD_DEVICE]))
        return refuse(TDM_TUNING_CORRUPT, reason, "the device is neither a class nor a pattern",
                      fields[FIELD_DEVICE]);
    /* The formats of layout, shape and time are checked first, so that a corrupt one is reported
     * before a stale field. */
    tdm_tuning_outcome outcome = read_layout(fields[FIELD_LAYOUT], row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_shape(fields[FIELD_SHAPE], row->shape, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_time(fields[FIELD_TIME], row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_operation(fields[FIELD_OP], row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_types(fields[FIELD_A], fields[FIELD_B], row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_choice(fields[FIELD_CHOICE], row, reason);
    row->device = fields[FIELD_DEVICE];
    return outcome;
}

tdm_tuning_outcome tdm_tuning_row_read(char *line, tdm_tuning_row *row,
                                       char reason[TDM_TUNING_REASON]) {
    char *fields[FIELDS];
    char *rest = NULL;
    int count = 0;
    *row = (tdm_tuning_row){.device = NULL};
    if (line[strspn(line, " ")] == '#')
        return TDM_TUNING_OK;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (count == FIELDS)
            return refuse(TDM_TUNING_CORRUPT, reason, "the row has too many fields", word);
        fields[count++] = word;
    }
    if (count == 0)
        return TDM_TUNING_OK;
    if (count == FIELDS)
        return read_fields(fields, row, reason);
    snprintf(reason, TDM_TUNING_REASON, "the row has %d fields, must have %d", count, FIELDS);
    return TDM_TUNING_CORRUPT;
}

bool tdm_tuning_row_write(const tdm_tuning_row *row, char line[TDM_TUNING_LINE]) {
    char shape[TDM_TUNING_SHAPE_TEXT], choice[TDM_CHOICE_TEXT];
    char time[40] = "not-measured";
    if (row->ns != 0)
        snprintf(time, sizeof time, "measured=%llu", (unsigned long long)row->ns);
    const char *const operation = operation_text(row);
    return operation &&
           snprintf(line, TDM_TUNING_LINE, "%s %s %s %s %s %s %s %s", row->device, operation,
                    tdm_dtype_name(row->a), tdm_dtype_name(row->b), tdm_tuning_layouts[row->layout],
                    tdm_tuning_shape_write(row->shape, shape),
                    tdm_choice_write(&row->choice, choice), time) < TDM_TUNING_LINE;
}

tdm_tuning_outcome tdm_tuning_shipped_read(const tdm_shipped_tuning *shipped, tdm_tuning_row *row,
                                           char reason[TDM_TUNING_REASON]) {
    char shape[TDM_TUNING_SHAPE_TEXT];
    *row = (tdm_tuning_row){.op = shipped->op, .ns = shipped->ns};
    if (!tdm_tuning_device_is_valid(shipped->device))
        return refuse(TDM_TUNING_CORRUPT, reason, "unknown device class", shipped->device);
    snprintf(shape, sizeof shape, "%s", shipped->shape);
    tdm_tuning_outcome outcome = read_layout(shipped->layout, row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_shape(shape, row->shape, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_types(shipped->a, shipped->b, row, reason);
    if (outcome == TDM_TUNING_OK)
        outcome = read_choice(shipped->choice, row, reason);
    row->device = shipped->device;
    return outcome;
}

const char *tdm_tuning_source_write(const tdm_tuning_row *row, char text[TDM_TUNING_SOURCE_TEXT]) {
    char shape[TDM_TUNING_SHAPE_TEXT];
    char time[64] = "not measured";
    if (row->ns != 0)
        snprintf(time, sizeof time, "measured %.6g ms", (double)row->ns * 1e-6);
    tdm_tuning_shape_write(row->shape, shape);
    if (row->line > 0)
        snprintf(text, TDM_TUNING_SOURCE_TEXT, "line %d of the user's file, %s %s, %s", row->line,
                 shape, tdm_tuning_layouts[row->layout], time);
    else
        snprintf(text, TDM_TUNING_SOURCE_TEXT, "shipped for %s, %s %s, %s", row->device, shape,
                 tdm_tuning_layouts[row->layout], time);
    return text;
}
