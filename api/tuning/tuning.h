/*
 * Tuning data: which variant, with which launch-time parameters, suits a problem on a device.
 *
 * A row says: on devices like this, for this operation, these storage types and this shape, prefer that variant with
 * those parameters. The user's rows (a text file that `tandem tune` writes) come before the shipped ones
 * (kernels/tuning.def). A row is a preference: selection goes on without it where its variant does not take the
 * problem. docs/tuning.md describes the file.
 *
 * tuning_text.c reads and writes rows as text, tuning_file.c reads files, tuning.c keeps a device's rows and finds the
 * nearest one.
 */
#ifndef TANDEM_API_TUNING_TUNING_H
#define TANDEM_API_TUNING_TUNING_H

#include "api/backend.h"
#include "kernels/kernel_index.h"

/* ---- a variant with its parameters: "gemm_f32_panel_12x32__avx512:row_items=8,col_items=2" ------------------------ */

/* Launch-time parameters: name, text, greatest value (the least is 1). A parameter of 0 is left to the plan. */
#define TDM_TUNE_PARAMETER_LIST(X)                                                                 \
    X(ROW_ITEMS, "row_items", 4096)                                                                \
    X(COL_ITEMS, "col_items", 4096)                                                                \
    X(PACK_B, "pack_b", 2)                                                                         \
    X(SPLIT_K, "split_k", 256)

typedef enum tdm_tune_parameter {
#define TDM_TUNE_ENUM(name, text, greatest) TDM_TUNE_##name,
    TDM_TUNE_PARAMETER_LIST(TDM_TUNE_ENUM)
#undef TDM_TUNE_ENUM
    TDM_TUNE_PARAMETERS
} tdm_tune_parameter;

/* Values of PACK_B. */
enum {
    TDM_TUNE_PACK_FIRST = 1, /* by a launch of its own */
    TDM_TUNE_PACK_INSIDE = 2 /* by the items that multiply */
};

typedef struct tdm_choice {
    const tdm_variant *variant;
    int32_t values[TDM_TUNE_PARAMETERS];
} tdm_choice;

#define TDM_CHOICE_TEXT 192
#define TDM_TUNING_REASON 256

/* What reading a text came to. Stale: well formed, but not of this version of the library. */
typedef enum tdm_tuning_outcome {
    TDM_TUNING_OK,
    TDM_TUNING_STALE,
    TDM_TUNING_CORRUPT
} tdm_tuning_outcome;

/* Read a choice; on failure the reason is set. */
tdm_tuning_outcome tdm_choice_read(const char *text, tdm_choice *choice,
                                   char reason[TDM_TUNING_REASON]);
/* Write it; returns text. */
const char *tdm_choice_write(const tdm_choice *choice, char text[TDM_CHOICE_TEXT]);
/* Text, and greatest value, of a parameter. */
const char *tdm_tune_parameter_text(tdm_tune_parameter parameter);
int32_t tdm_tune_parameter_greatest(tdm_tune_parameter parameter);

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

enum {
    TDM_TUNING_M,
    TDM_TUNING_N,
    TDM_TUNING_K,
    TDM_TUNING_BATCH,
    TDM_TUNING_AXES
};

/* "nn", "nt", "tn", "tt" (A and B as they are, or transposed: contiguous along the other dimension), "any". */
enum {
    TDM_TUNING_LAYOUT_ANY = 4,
    TDM_TUNING_LAYOUTS = 5
};
extern const char *const tdm_tuning_layouts[TDM_TUNING_LAYOUTS];
static inline int tdm_tuning_layout(bool transpose_a, bool transpose_b) {
    return 2 * transpose_a + transpose_b;
}

typedef struct tdm_tuning_row {
    const char *device; /* class or pattern, as written; see tdm_tuning_device_rank */
    tdm_op op;
    bool quantize_a;    /* of GEMM_WEIGHTS: rows of A are quantized in the call */
    bool allows_3xtf32; /* of GEMM: for plans that allow it */
    tdm_dtype a, b;
    int layout;                     /* a place of tdm_tuning_layouts */
    int64_t shape[TDM_TUNING_AXES]; /* 0: any */
    tdm_choice choice; /* of GEMM_WEIGHTS also a row that multiplies what was unpacked */
    uint64_t ns;       /* of one run, 0: not measured */
    int line;          /* of the user's file; 0: shipped */
} tdm_tuning_row;

#define TDM_TUNING_LINE 1024

/*
 * One line of a file, cut up in place: the row's device points into it. `line` may be "" or a comment: then
 * row->device is NULL.
 */
tdm_tuning_outcome tdm_tuning_row_read(char *line, tdm_tuning_row *row,
                                       char reason[TDM_TUNING_REASON]);
/* The line of a row, without a newline. False when it does not fit. */
bool tdm_tuning_row_write(const tdm_tuning_row *row, char line[TDM_TUNING_LINE]);

/* "512x512x64x96", "*" for an axis that may be anything. */
#define TDM_TUNING_SHAPE_TEXT 96
const char *tdm_tuning_shape_write(const int64_t shape[TDM_TUNING_AXES],
                                   char text[TDM_TUNING_SHAPE_TEXT]);

/* A shipped row, of kernels/tuning.def. */
tdm_tuning_outcome tdm_tuning_shipped_read(const tdm_shipped_tuning *shipped, tdm_tuning_row *row,
                                           char reason[TDM_TUNING_REASON]);

/*
 * How closely a row's device text fits a device: the greater the closer, 0 not at all. A class is a word: "any", "cpu"
 * (work-items run on CPU cores), "cpu-avx2", "cpu-avx512", "cpu-avx512-bf16", "gpu", or "gpu:0x10de" with the vendor's PCI number. Anything
 * else is a pattern on the device's selector "backend/driver-family/name": '*' stands for any characters, %20 for a blank,
 * letters match in either case.
 */
int tdm_tuning_device_rank(const char *device, const tdm_device_info *info);
/* Is it one of the classes, or a pattern with a '/' in it? */
bool tdm_tuning_device_is_valid(const char *device);
/* The pattern that fits this very device. False when it does not fit. */
#define TDM_TUNING_DEVICE_TEXT 640
bool tdm_tuning_device_write(const tdm_device_info *info, char text[TDM_TUNING_DEVICE_TEXT]);

/* ---- files ----------------------------------------------------------------------------------------------------------- */

/* First line of a file. A file of another number is refused. */
#define TDM_TUNING_HEADER "tandem-tuning"
#define TDM_TUNING_VERSION 1

#define TDM_TUNING_MAX_BYTES (1 << 20)
#define TDM_TUNING_MAX_ROWS 4096

typedef enum tdm_tuning_file_state {
    TDM_TUNING_FILE_READ,
    TDM_TUNING_FILE_ABSENT, /* there is none, or an empty name */
    TDM_TUNING_FILE_REFUSED /* it is not used at all; the message says why */
} tdm_tuning_file_state;

typedef struct tdm_tuning_file {
    char *text; /* that the rows' device texts point into */
    tdm_tuning_row *rows;
    int count;
    int stale;         /* rows passed over because this library does not know what they name */
    char message[512]; /* "PATH: line 3: reason" of a refusal; else of the first stale row, or "" */
} tdm_tuning_file;

/*
 * The user's file: $TANDEM_TUNING_FILE, else $XDG_CONFIG_HOME/tandem/tuning.txt, else $HOME/.config/tandem/tuning.txt.
 * NULL when it is "off" or has no place; the caller frees it with tdm_host_free. *named: TANDEM_TUNING_FILE gave it.
 */
char *tdm_tuning_path(bool *named);

/*
 * Read a file. It must be a regular file of at most TDM_TUNING_MAX_BYTES that belongs to this user or to root, and that
 * nobody else may write to. Never blocks on what is no regular file. The rows are released with tdm_tuning_file_release.
 */
tdm_tuning_file_state tdm_tuning_file_read(const char *path, tdm_tuning_file *file);
void tdm_tuning_file_release(tdm_tuning_file *file);

/* ---- what a device looks up --------------------------------------------------------------------------------------------- */

/* A row is used for problems whose every axis is within this factor of its own. */
#define TDM_TUNING_REACH 2

typedef struct tdm_tuning_table tdm_tuning_table;

typedef struct tdm_tuning_query {
    tdm_op op;
    bool quantize_a, allows_3xtf32;
    tdm_dtype a, b;
    int layout;
    int64_t shape[TDM_TUNING_AXES];
} tdm_tuning_query;

/*
 * Rows for a device, from the user's file and the shipped ones. What is wrong with the file goes to the log (topic
 * "tuning") and never fails: the shipped rows serve then. NULL only without host memory. Immutable, so any thread may look
 * things up.
 */
tdm_tuning_table *tdm_tuning_open(const tdm_device_info *info);
void tdm_tuning_close(tdm_tuning_table *table);

/*
 * The nearest row, or NULL: the user's rows first, then the shipped ones; of those the rows whose device text fits most
 * closely; of those the one with the least sum of squares of the log2 ratios along m, n, k and batch. An axis that may be
 * anything, and a layout that may be any, count as TDM_TUNING_REACH away. A row of another layout is not used.
 */
const tdm_tuning_row *tdm_tuning_find(const tdm_tuning_table *table, const tdm_tuning_query *query);

/*
 * May the row's parameters serve the problem, too? Only where every axis is within a factor of 1.25 of the row's: how a launch
 * is divided goes with its size, while the better variant holds for longer.
 */
bool tdm_tuning_is_near(const tdm_tuning_row *row, const tdm_tuning_query *query);

/* For a person: "line 7 of the user's file, measured 1.234 ms at 512x512x512x1", "shipped for gpu, not measured". */
#define TDM_TUNING_SOURCE_TEXT 256
const char *tdm_tuning_source_write(const tdm_tuning_row *row, char text[TDM_TUNING_SOURCE_TEXT]);

#endif
