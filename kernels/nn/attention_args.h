/* These are the arguments of the attention kernels besides buffers. The host and the kernel sources
 * share this definition. The structs have no padding, which drivers count differently. */
#ifndef TDM_ATTENTION_ARGS_H
#define TDM_ATTENTION_ARGS_H

/* These are distances in elements. `head` is that of heads: of q, y or the mask, and KV heads of k
 * and v. `batch` is the distance of pages if k and v are paged. */
typedef struct {
    long batch, head, row, column;
} tdm_attention_strides;

typedef struct {
    tdm_attention_strides q, k, v, y;
} tdm_attention_tensors;

/* The column stride of scales is the distance of one group's scale to the next one's. */
typedef struct {
    tdm_attention_strides mask, k_scale, v_scale;
    long length;              /* stride of `lengths` */
    long table_row, table_at; /* strides of the block table: sequence, page */
} tdm_attention_options_arg;

/* A type of 0 means that the operand is absent. scale is that of q·k, divided by the cap if there
 * is one, else multiplied by log2(e). */
typedef struct {
    long queries, keys; /* keys: the most that a sequence can have */
    long first_query; /* position of the first query; below 0: the last query is at the last key */
    long window;      /* distance from which on keys are invisible */
    long page_keys;   /* keys of a page; 0: k and v are contiguous */
    long pages;       /* pages of k and v */
    long split_keys;  /* keys of a part */
    int splits; /* parts into which the keys are split; with more than 1, results go to `parts` */
    int group;  /* query heads of a KV head */
    int width, v_width; /* elements of a row of q and k, and of v and y */
    int q_type, k_type, v_type, mask_type, k_scale_type, v_scale_type;
    int k_group, v_group; /* elements of a row that share a scale */
    int causal, has_lengths;
    float scale, cap;
} tdm_attention_arg;

#endif
