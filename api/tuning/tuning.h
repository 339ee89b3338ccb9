/*
 * Tuning data names the variant and launch-time parameters that suit a problem on a device.
 *
 * A row applies to a device class or pattern, an operation, storage types and a shape. It names the
 * preferred variant and its parameters. The user's rows (a text file that `tandem tune` writes)
 * come before the shipped ones (kernels/tuning.def). A row is a preference: selection ignores it if
 * its variant does not take the problem. docs/tuning.md describes the file.
 *
 * tuning_text.c reads and writes rows as text, tuning_file.c reads files, tuning.c keeps a device's
 * rows and finds the nearest one.
 */
#ifndef TANDEM_API_TUNING_TUNING_H
#define TANDEM_API_TUNING_TUNING_H

#include "api/backend.h"
#include "kernels/kernel_index.h"

/* ---- choices: "gemm_f32_panel_12x32__avx512:row_items=8,col_items=2" ------------------------- */

/* These are the launch-time parameters of a variant. The columns are name, text and greatest value;
 * the least value is 1. If a parameter is 0, the plan chooses it. */
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

/* These values of PACK_B say how B is packed. */
enum {
    TDM_TUNE_PACK_FIRST = 1, /* by a separate launch */
    TDM_TUNE_PACK_INSIDE = 2 /* by the work-items that multiply */
};

typedef struct tdm_choice {
    const tdm_variant *variant;
    int32_t values[TDM_TUNE_PARAMETERS];
} tdm_choice;

#define TDM_CHOICE_TEXT 192
#define TDM_TUNING_REASON 256

/* These are the results of reading a text. A stale text is well formed, but not valid in this
 * version of the library. */
typedef enum tdm_tuning_outcome {
    TDM_TUNING_OK,
    TDM_TUNING_STALE,
    TDM_TUNING_CORRUPT
} tdm_tuning_outcome;

/* Reads a choice. On failure, writes the reason. */
tdm_tuning_outcome tdm_choice_read(const char *text, tdm_choice *choice,
                                   char reason[TDM_TUNING_REASON]);
/* Writes a choice as text; returns text. */
const char *tdm_choice_write(const tdm_choice *choice, char text[TDM_CHOICE_TEXT]);
/* Return the text of a parameter, and its greatest value. */
const char *tdm_tune_parameter_text(tdm_tune_parameter parameter);
int32_t tdm_tune_parameter_greatest(tdm_tune_parameter parameter);

/* ---- rows ------------------------------------------------------------------------------------ */

enum {
    TDM_TUNING_M,
    TDM_TUNING_N,
    TDM_TUNING_K,
    TDM_TUNING_BATCH,
    TDM_TUNING_AXES
};

/* Layouts are "nn", "nt", "tn", "tt" and "any". A and B are transposed (t), which means
 * column-major, or not (n). */
enum {
    TDM_TUNING_LAYOUT_ANY = 4,
    TDM_TUNING_LAYOUTS = 5
};
extern const char *const tdm_tuning_layouts[TDM_TUNING_LAYOUTS];
static inline int tdm_tuning_layout(bool transpose_a, bool transpose_b) {
    return 2 * transpose_a + transpose_b;
}

typedef struct tdm_tuning_row {
    const char *device; /* class or pattern as written; see tdm_tuning_device_rank */
    tdm_op op;
    bool quantize_a;    /* GEMM_WEIGHTS: rows of A are quantized in the call */
    bool allows_3xtf32; /* GEMM: for plans that allow it */
    tdm_dtype a, b;
    int layout;                     /* index into tdm_tuning_layouts */
    int64_t shape[TDM_TUNING_AXES]; /* 0: any */
    tdm_choice choice; /* for GEMM_WEIGHTS also a variant that takes converted weights */
    uint64_t ns;       /* time of one run; 0: not measured */
    int line;          /* line of the user's file; 0: shipped */
} tdm_tuning_row;

#define TDM_TUNING_LINE 1024

/* Reads one line of a file and splits it in place; the row's device points into it. `line` may be
 * "" or a comment: row->device is then NULL. */
tdm_tuning_outcome tdm_tuning_row_read(char *line, tdm_tuning_row *row,
                                       char reason[TDM_TUNING_REASON]);
/* Writes the line of a row, without a newline. False if it does not fit. */
bool tdm_tuning_row_write(const tdm_tuning_row *row, char line[TDM_TUNING_LINE]);

/* Writes "512x512x64x96", with "*" for an axis of any size. */
#define TDM_TUNING_SHAPE_TEXT 96
const char *tdm_tuning_shape_write(const int64_t shape[TDM_TUNING_AXES],
                                   char text[TDM_TUNING_SHAPE_TEXT]);

/* Reads a shipped row of kernels/tuning.def. */
tdm_tuning_outcome tdm_tuning_shipped_read(const tdm_shipped_tuning *shipped, tdm_tuning_row *row,
                                           char reason[TDM_TUNING_REASON]);

/*
 * Returns how closely a row's device text matches a device: larger is closer, 0 is no match. A
 * class is one of the words "any", "cpu" (work-items run on CPU cores), "cpu-avx2", "cpu-avx512",
 * "cpu-avx512-bf16", "gpu", or "gpu:0x10de" with the vendor's PCI number. Any other text is a
 * pattern for the device's selector "backend/driver-family/name". In a pattern '*' matches any
 * characters, %20 is a blank, and letter case is ignored.
 */
int tdm_tuning_device_rank(const char *device, const tdm_device_info *info);
/* True if the text is a class, or a pattern with a '/' in it. */
bool tdm_tuning_device_is_valid(const char *device);
/* Writes the pattern that matches exactly this device. False if it does not fit. */
#define TDM_TUNING_DEVICE_TEXT 640
bool tdm_tuning_device_write(const tdm_device_info *info, char text[TDM_TUNING_DEVICE_TEXT]);

/* ---- files ----------------------------------------------------------------------------------- */

/* The first line of a file has this word and the version. A file with another version is
 * refused. */
#define TDM_TUNING_HEADER "tandem-tuning"
#define TDM_TUNING_VERSION 1

#define TDM_TUNING_MAX_BYTES (1 << 20)
#define TDM_TUNING_MAX_ROWS 4096

typedef enum tdm_tuning_file_state {
    TDM_TUNING_FILE_READ,
    TDM_TUNING_FILE_ABSENT, /* there is no file, or the name is empty */
    TDM_TUNING_FILE_REFUSED /* the whole file is ignored; the message says why */
} tdm_tuning_file_state;

typedef struct tdm_tuning_file {
    char *text; /* content; the rows' device texts point into it */
    tdm_tuning_row *rows;
    int count;
    int stale; /* skipped rows that name something unknown to this library */
    /* Reason of a refusal ("PATH: line 3: reason"), else of the first stale row, or "". */
    char message[512];
} tdm_tuning_file;

/*
 * Returns the path of the user's file: $TANDEM_TUNING_FILE, else
 * $XDG_CONFIG_HOME/tandem/tuning.txt, else $HOME/.config/tandem/tuning.txt. Returns NULL if
 * $TANDEM_TUNING_FILE is "off", or if no variable gives a folder. The caller frees it with
 * tdm_host_free. *named is true if TANDEM_TUNING_FILE gave the path.
 */
char *tdm_tuning_path(bool *named);

/*
 * Reads a file. It must be a regular file of at most TDM_TUNING_MAX_BYTES. It must belong to this
 * user or to root, and no one else may have write permission. The call never blocks on other kinds
 * of files. The rows are released with tdm_tuning_file_release.
 */
tdm_tuning_file_state tdm_tuning_file_read(const char *path, tdm_tuning_file *file);
void tdm_tuning_file_release(tdm_tuning_file *file);

/* ---- lookup for a device --------------------------------------------------------------------- */

/* A row applies to problems whose sizes are each within this factor of the row's. */
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
 * Collects the rows for a device, from the user's file and the shipped ones. Errors in the file go
 * to the log (topic "tuning") and are never failures: the shipped rows are then used. Returns NULL
 * only without host memory. The table is immutable, so any thread may use it.
 */
tdm_tuning_table *tdm_tuning_open(const tdm_device_info *info);
void tdm_tuning_close(tdm_tuning_table *table);

/*
 * Returns the nearest row, or NULL. The user's rows come before the shipped ones, and rows with a
 * closer device text before others. Among these, the row with the least sum of squares wins: the
 * sum of the squared log2 ratios of m, n, k and batch. An axis of any size, and a layout "any",
 * count like a ratio of TDM_TUNING_REACH. A row of another layout is not used.
 */
const tdm_tuning_row *tdm_tuning_find(const tdm_tuning_table *table, const tdm_tuning_query *query);

/*
 * True if the row's parameters apply to the problem, too: every axis is within a factor of 1.25 of
 * the row's. The best work partition depends on the size, but the best variant is the same over a
 * wider range.
 */
bool tdm_tuning_is_near(const tdm_tuning_row *row, const tdm_tuning_query *query);

/* Writes a description: "line 7 of the user's file, 512x512x512x1 nn, measured 1.234 ms", or
 * "shipped for gpu, …, not measured". */
#define TDM_TUNING_SOURCE_TEXT 256
const char *tdm_tuning_source_write(const tdm_tuning_row *row, char text[TDM_TUNING_SOURCE_TEXT]);

#endif
