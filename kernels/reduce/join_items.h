/* JOIN reduces all work-items' values of `mine` into joined[0], by a tree. All work-items must
 * run it, and `item` is the work-item's index in its group. It is a macro because PoCL 3.1 shares a
 * local array between the groups of different threads if it is passed to a function. */
#ifndef TDM_JOIN_ITEMS_H
#define TDM_JOIN_ITEMS_H

#define MAX_GROUP 256

#define JOIN(joined, mine, op)                                                                     \
    do {                                                                                           \
        joined[item] = mine;                                                                       \
        tdm_barrier();                                                                             \
        for (int width = tdm_group_size_x() / 2; width > 0; width /= 2) {                          \
            if (item < width)                                                                      \
                joined[item] = tdm_step_one(joined[item], joined[item + width], op);               \
            tdm_barrier();                                                                         \
        }                                                                                          \
    } while (0)

#endif
