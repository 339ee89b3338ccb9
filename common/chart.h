/*
 * Charts with two logarithmic axes, as SVG within HTML. They load no other files, and their series
 * can be distinguished without colours.
 */
#ifndef TANDEM_COMMON_CHART_H
#define TANDEM_COMMON_CHART_H

#include <stddef.h>
#include <stdio.h>

typedef enum chart_form {
    CHART_LINE,   /* measured */
    CHART_DASHED, /* from a datasheet or a model */
    CHART_POINTS
} chart_form;

enum {
    CHART_MAX_SERIES = 24,
    CHART_STYLES = 14,
    CHART_QUIET_STYLES = 8 /* the first style for limits, which are in the background */
};

typedef struct chart_point {
    double x;
    double y;
    const char *label; /* for a single point; NULL: none */
} chart_point;

typedef struct chart_series {
    char name[96];
    chart_form form;
    int style; /* the colour and the shape of points */
    size_t first;
    size_t count;
} chart_series;

/* The caller sets the strings, which are borrowed, and leaves the rest zero. */
typedef struct chart_plot {
    const char *title;
    const char *description;
    const char *x_label;
    const char *y_label;
    int x_is_bytes; /* ticks at powers of two: 4 KiB, 1 MiB */
    chart_series series[CHART_MAX_SERIES];
    size_t series_count;
    chart_point *points; /* of all series, one after the other */
    size_t point_count;
    size_t point_room;
    int short_of_memory; /* 1: some points were left out */
} chart_plot;

/* Begins a series. Beyond CHART_MAX_SERIES, its points go to the last series. */
void chart_begin_series(chart_plot *chart, const char *name, chart_form form, int style);

/* Adds a point to the latest series. Points that are not positive and finite are left out. */
void chart_add(chart_plot *chart, double x, double y, const char *label);

/* Writes a <figure> with the chart and its legend, or nothing if there is no point. */
void chart_write(FILE *file, const chart_plot *chart);

void chart_release(chart_plot *chart);

/* Writes the CSS rules that charts need, for the page's <style>. */
void chart_write_style(FILE *file);

#endif
