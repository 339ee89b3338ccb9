/* Keeps the tuning rows of a device, and finds the row that is nearest to a problem. */
#include "api/tuning/tuning.h"

#include <math.h>
#include <string.h>

/* This is a tuning row with precomputed data for the lookup. */
typedef struct ranked_row {
    tdm_tuning_row row;
    int rank; /* higher is better; the user's rows are above all shipped ones */
    double position[TDM_TUNING_AXES]; /* log2 of the sizes; unused for an axis of any size */
} ranked_row;

struct tdm_tuning_table {
    tdm_tuning_file file; /* the user's rows point into its text */
    ranked_row *rows;
    int count;
};

/* This is added to the rank of the user's rows. It is greater than every rank that
 * tdm_tuning_device_rank returns. */
#define USERS_ROW 1000

/* A row is near, for tdm_tuning_is_near, if every size is within this factor. */
#define NEAR 1.25

static void add_row(tdm_tuning_table *table, const tdm_tuning_row *row, int rank) {
    ranked_row *const added = &table->rows[table->count++];
    *added = (ranked_row){.row = *row, .rank = rank};
    for (int i = 0; i < TDM_TUNING_AXES; i++)
        added->position[i] = row->shape[i] > 0 ? log2((double)row->shape[i]) : 0;
}

static void add_users_rows(tdm_tuning_table *table, const tdm_device_info *info) {
    for (int i = 0; i < table->file.count; i++) {
        const tdm_tuning_row *const row = &table->file.rows[i];
        const int rank = tdm_tuning_device_rank(row->device, info);
        if (rank > 0)
            add_row(table, row, USERS_ROW + rank);
    }
}

static void add_shipped_rows(tdm_tuning_table *table, const tdm_device_info *info) {
    for (int i = 0; i < tdm_shipped_tuning_count; i++) {
        char reason[TDM_TUNING_REASON];
        tdm_tuning_row row;
        const int rank = tdm_tuning_device_rank(tdm_shipped_tunings[i].device, info);
        if (rank > 0 &&
            tdm_tuning_shipped_read(&tdm_shipped_tunings[i], &row, reason) == TDM_TUNING_OK)
            add_row(table, &row, rank);
    }
}

/* Reads the user's file, and logs why a file or some of its rows are not used. */
static void read_users_file(tdm_tuning_file *file) {
    bool named;
    char *const path = tdm_tuning_path(&named);
    *file = (tdm_tuning_file){.text = NULL};
    if (!path)
        return;
    switch (tdm_tuning_file_read(path, file)) {
    case TDM_TUNING_FILE_ABSENT:
        if (named)
            tdm_log(TDM_LOG_WARNING, "tuning", "%s: there is no such file", path);
        break;
    case TDM_TUNING_FILE_REFUSED:
        tdm_log(TDM_LOG_WARNING, "tuning", "%s; the file is not used", file->message);
        break;
    case TDM_TUNING_FILE_READ:
        if (file->stale > 0)
            tdm_log(TDM_LOG_WARNING, "tuning", "%s; rows skipped: %d", file->message, file->stale);
        break;
    }
    tdm_host_free(path);
}

tdm_tuning_table *tdm_tuning_open(const tdm_device_info *info) {
    tdm_tuning_table *const table = tdm_host_calloc(1, sizeof *table);
    if (!table)
        return NULL;
    read_users_file(&table->file);
    table->rows = tdm_host_calloc((size_t)table->file.count + (size_t)tdm_shipped_tuning_count,
                                  sizeof *table->rows);
    if (!table->rows) {
        tdm_tuning_close(table);
        return NULL;
    }
    add_users_rows(table, info);
    const int users = table->count;
    add_shipped_rows(table, info);
    tdm_log(TDM_LOG_INFO, "tuning", "%s: %d rows from the user's file, %d shipped", info->selector,
            users, table->count - users);
    return table;
}

void tdm_tuning_close(tdm_tuning_table *table) {
    if (!table)
        return;
    tdm_tuning_file_release(&table->file);
    tdm_host_free(table->rows);
    tdm_host_free(table);
}

/* Returns the sum of the squared log2 ratios of the sizes. The result is negative if a size is not
 * within the factor TDM_TUNING_REACH. */
static double distance(const ranked_row *row, const double position[TDM_TUNING_AXES]) {
    // Rounding of the logarithms must not exclude a size at the limit.
    const double reach = log2(TDM_TUNING_REACH) + 1e-9;
    double sum = row->row.layout == TDM_TUNING_LAYOUT_ANY ? reach * reach : 0;
    for (int i = 0; i < TDM_TUNING_AXES; i++) {
        const double apart = row->row.shape[i] == 0 ? reach : fabs(row->position[i] - position[i]);
        if (apart > reach)
            return -1;
        sum += apart * apart;
    }
    return sum;
}

static bool is_of_kind(const tdm_tuning_row *row, const tdm_tuning_query *query) {
    return row->op == query->op && row->quantize_a == query->quantize_a &&
           row->allows_3xtf32 == query->allows_3xtf32 && row->a == query->a && row->b == query->b &&
           (row->layout == TDM_TUNING_LAYOUT_ANY || row->layout == query->layout);
}

const tdm_tuning_row *tdm_tuning_find(const tdm_tuning_table *table,
                                      const tdm_tuning_query *query) {
    const ranked_row *best = NULL;
    double least = 0;
    double position[TDM_TUNING_AXES];
    for (int i = 0; i < TDM_TUNING_AXES; i++)
        position[i] = log2(query->shape[i] > 0 ? (double)query->shape[i] : 1.0);
    for (int i = 0; table && i < table->count; i++) {
        const ranked_row *const row = &table->rows[i];
        if (!is_of_kind(&row->row, query) || (best && row->rank < best->rank))
            continue;
        const double apart = distance(row, position);
        if (apart < 0 || (best && row->rank == best->rank && apart >= least))
            continue;
        best = row;
        least = apart;
    }
    return best ? &best->row : NULL;
}

bool tdm_tuning_is_near(const tdm_tuning_row *row, const tdm_tuning_query *query) {
    for (int i = 0; i < TDM_TUNING_AXES; i++) {
        const double own = (double)row->shape[i], asked = (double)query->shape[i];
        if (row->shape[i] != 0 && (asked > own * NEAR || own > asked * NEAR))
            return false;
    }
    return true;
}
