/*
 * Charts with two logarithmic axes as SVG within HTML: lines, bands and points that load nothing from elsewhere, are told
 * apart without colours, and carry a text for those who do not see them.
 */
#ifndef TANDEM_COMMON_CHART_H
#define TANDEM_COMMON_CHART_H

#include <stddef.h>
#include <stdio.h>

typedef enum chart_form {
    CHART_LINE,   /* measured */
    CHART_DASHED, /* not measured: of a datasheet, or of a model */
    CHART_POINTS
} chart_form;

typedef enum chart_unit {
    CHART_PLAIN,
    CHART_BYTES /* ticks at powers of two: 4 KiB, 1 MiB */
} chart_unit;

/* A place that is not positive and finite is left out. */
typedef struct chart_point {
    double x;
    double y;
    double low; /* with `high` the band around y; NaN: none */
    double high;
    const char *
        label; /* of a point by itself: it gets a number, which the table and the printed key explain; NULL: none */
} chart_point;

typedef struct chart_series {
    const char *name;
    chart_form form;
    int style; /* its colour and the mark of its points, modulo CHART_STYLES */
    const chart_point *points;
    size_t count;
} chart_series;

/* A place of the x axis with a name, which the table has too. */
typedef struct chart_mark {
    double x;
    const char *label;
} chart_mark;

typedef struct chart_plot {
    const char *title;
    const char *description; /* what is to be seen, in a sentence or two */
    const char *x_label;
    const char *y_label;
    chart_unit x_unit;
    const chart_series *series;
    size_t series_count;
    const chart_mark *marks;
    size_t mark_count;
} chart_plot;

enum {
    CHART_STYLES = 14,
    CHART_QUIET_STYLES =
        8 /* the first of those for what stands behind: limits that are no series of their own kind */
};

/* The rules of style that charts need, for the page's <style>. */
void chart_write_style(FILE *file);

/*
 * A <figure> with the chart, its legend, its points as a table that unfolds, and as a key of their numbers where it is printed. Without any point
 * it is a paragraph that says so.
 */
void chart_write(FILE *file, const chart_plot *chart);

#endif
