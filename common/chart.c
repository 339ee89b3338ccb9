#include "common/chart.h"

#include <math.h>
#include <stdlib.h>

#include "common/html_text.h"
#include "common/table_print.h"

/* These lengths are in units of the view box. */
static const double chart_width = 460;
static const double chart_height = 320;
static const double plot_left = 52;
static const double plot_right = 448;
static const double plot_top = 22;
static const double plot_bottom = 276;

enum {
    MAX_TICKS = 64,
    POINT_SHAPES = 4,
    VALUE_TEXT = 48
};

/* ---- points ---------------------------------------------------------------------------------- */

void chart_begin_series(chart_plot *chart, const char *name, chart_form form, int style) {
    if (chart->series_count == CHART_MAX_SERIES)
        return;
    chart_series *const series = &chart->series[chart->series_count++];
    *series =
        (chart_series){.form = form, .style = style % CHART_STYLES, .first = chart->point_count};
    snprintf(series->name, sizeof series->name, "%s", name);
}

void chart_add(chart_plot *chart, double x, double y, const char *label) {
    if (!(x > 0 && isfinite(x) && y > 0 && isfinite(y)) || chart->series_count == 0)
        return;
    if (chart->point_count == chart->point_room) {
        const size_t room = 2 * chart->point_room + 64;
        chart_point *const points = realloc(chart->points, room * sizeof *points);
        chart->short_of_memory |= points == NULL;
        if (points == NULL)
            return;
        chart->points = points;
        chart->point_room = room;
    }
    chart->points[chart->point_count++] = (chart_point){x, y, label};
    chart->series[chart->series_count - 1].count++;
}

void chart_release(chart_plot *chart) {
    free(chart->points);
    chart->points = NULL;
}

/* ---- axes ------------------------------------------------------------------------------------ */

typedef struct plot_axis {
    double low; /* decimal logarithms */
    double high;
    double start; /* where `low` and `high` are drawn */
    double end;
    int is_bytes;
} plot_axis;

static double place(const plot_axis *axis, double value) {
    return axis->start +
           (log10(value) - axis->low) / (axis->high - axis->low) * (axis->end - axis->start);
}

static void widen(plot_axis *axis, double value) {
    axis->low = fmin(axis->low, log10(value));
    axis->high = fmax(axis->high, log10(value));
}

/* Adds a margin of a twentieth on each side. The axis then covers at least a factor of two. */
static void round_out(plot_axis *axis) {
    const double least = 0.15;
    const double room = fmax((axis->high - axis->low) / 20, 0.02);
    const double more = axis->high - axis->low < 2 * least ? least : 0;
    axis->low -= more + room;
    axis->high += more + room;
}

static void value_text(double value, int is_bytes, char text[VALUE_TEXT]) {
    if (is_bytes)
        table_bytes_text(value, text, VALUE_TEXT);
    else if (value >= 1e6)
        snprintf(text, VALUE_TEXT, "%.4g M", value * 1e-6);
    else
        snprintf(text, VALUE_TEXT, "%.4g", value);
}

/* Finds readable ticks: powers of two, or 1, 2 and 5 times powers of ten. Returns their number. */
static int find_ticks(const plot_axis *axis, double *ticks) {
    static const double parts[] = {1, 2, 5};
    const double base = axis->is_bytes ? log10(2) : 1;
    const double span = (axis->high - axis->low) / base;
    const int step = (int)fmax(1, ceil(span / (axis->is_bytes ? 6 : 8)));
    const int part_count = axis->is_bytes || span >= 2.5 ? 1 : 3;
    int count = 0;
    for (int e = (int)floor(axis->low / base / step) * step; e * base <= axis->high; e += step)
        for (int part = 0; part < part_count; part++) {
            const double value = log10(parts[part]) + e * base;
            if (value >= axis->low && value <= axis->high && count < MAX_TICKS)
                ticks[count++] = pow(10, value);
        }
    return count;
}

static void draw_ticks(FILE *file, const plot_axis *axis, int is_x) {
    double ticks[MAX_TICKS];
    char label[VALUE_TEXT];
    const int count = find_ticks(axis, ticks);
    for (int i = 0; i < count; i++) {
        const double at = place(axis, ticks[i]);
        value_text(ticks[i], axis->is_bytes, label);
        fprintf(file, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                is_x ? at : plot_left, is_x ? plot_top : at, is_x ? at : plot_right,
                is_x ? plot_bottom : at);
        fprintf(file, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                is_x ? "middle" : "end", is_x ? at : plot_left - 5,
                is_x ? plot_bottom + 15 : at + 4, label);
    }
}

static void draw_axes(FILE *file, const chart_plot *chart, const plot_axis *x, const plot_axis *y) {
    draw_ticks(file, x, 1);
    draw_ticks(file, y, 0);
    fprintf(file, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">",
            (plot_left + plot_right) / 2, plot_bottom + 33);
    html_text(file, chart->x_label);
    fprintf(file, "</text>\n<text x=\"4\" y=\"%.1f\">", plot_top - 9);
    html_text(file, chart->y_label);
    fputs("</text>\n", file);
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Writes the shape of a point. The shape and the colour together identify the series. */
static void write_shape(FILE *file, int style, double x, double y) {
    static const char *const shapes[POINT_SHAPES] = {
        "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z", "m-3 -3h6v6h-6Z", "m0 -4l4 7h-8Z",
        "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5Z"};
    fprintf(file, "<path class=\"point s%d\" d=\"M%.1f %.1f%s\"", style, x, y,
            shapes[style % POINT_SHAPES]);
}

static void draw_series(FILE *file, const chart_plot *chart, const chart_series *series,
                        const plot_axis *x_axis, const plot_axis *y_axis) {
    if (series->form != CHART_POINTS)
        fprintf(file, "<path class=\"line %s s%d\" d=\"",
                series->form == CHART_DASHED ? "dashed" : "solid", series->style);
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *const point = &chart->points[series->first + i];
        const double x = place(x_axis, point->x);
        const double y = place(y_axis, point->y);
        if (series->form != CHART_POINTS) {
            fprintf(file, "%s%.1f %.1f", i == 0 ? "M" : "L", x, y);
            continue;
        }
        write_shape(file, series->style, x, y);
        fputs("><title>", file);
        html_text(file, point->label == NULL ? series->name : point->label);
        fputs("</title></path>\n", file);
    }
    fputs(series->form != CHART_POINTS ? "\"/>\n" : "", file);
}

static void write_legend(FILE *file, const chart_plot *chart) {
    fputs("<ul class=\"legend\">\n", file);
    for (size_t s = 0; s < chart->series_count; s++) {
        const chart_series *const series = &chart->series[s];
        if (series->count == 0)
            continue;
        fputs("<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">", file);
        if (series->form == CHART_POINTS)
            write_shape(file, series->style, 13, 6);
        else
            fprintf(file, "<path class=\"line %s s%d\" d=\"M1 6L25 6\"",
                    series->form == CHART_DASHED ? "dashed" : "solid", series->style);
        fputs("/></svg> ", file);
        html_text(file, series->name);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

/* Draws lines first, so that points are on top of them. */
static void draw(FILE *file, const chart_plot *chart) {
    plot_axis x = {INFINITY, -INFINITY, plot_left, plot_right, chart->x_is_bytes};
    plot_axis y = {INFINITY, -INFINITY, plot_bottom, plot_top, 0};
    for (size_t i = 0; i < chart->point_count; i++) {
        widen(&x, chart->points[i].x);
        widen(&y, chart->points[i].y);
    }
    round_out(&x);
    round_out(&y);
    draw_axes(file, chart, &x, &y);
    for (int points = 0; points < 2; points++)
        for (size_t s = 0; s < chart->series_count; s++)
            if ((chart->series[s].form == CHART_POINTS) == points && chart->series[s].count > 0)
                draw_series(file, chart, &chart->series[s], &x, &y);
}

void chart_write(FILE *file, const chart_plot *chart) {
    if (chart->point_count == 0)
        return;
    fprintf(file,
            "<figure>\n<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "aria-label=\"",
            chart_width, chart_height);
    html_format(file, "%s. %s", chart->title, chart->description);
    fprintf(file,
            "\">\n<rect class=\"frame\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>\n",
            plot_left, plot_top, plot_right - plot_left, plot_bottom - plot_top);
    draw(file, chart);
    fputs("</svg>\n<figcaption>", file);
    html_text(file, chart->description);
    fputs("</figcaption>\n", file);
    write_legend(file, chart);
    fputs("</figure>\n", file);
}

void chart_write_style(FILE *file) {
    /*
     * Most colour-blind people can tell these colours apart (Okabe and Ito, 2008). The yellow is
     * replaced, because it is hard to see on white paper.
     */
    static const char *const colours[CHART_STYLES] = {
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a63c7",
        "#c2185b", "#7f7f7f", "#9c6b53", "#8f8f1f", "#3a9ea5", "#a89984", "#6f8f72"};
    fputs("svg.chart{width:100%;max-width:42rem;height:auto;font:12px sans-serif}\n"
          "svg.chart text{fill:currentColor}\n"
          ".frame{fill:none;stroke:currentColor;stroke-opacity:.5}\n"
          ".grid{stroke:currentColor;stroke-opacity:.13}\n"
          ".line{fill:none;stroke-width:2}.dashed{stroke-dasharray:6 4}\n"
          ".point{fill-opacity:.75;stroke-width:1}\n"
          ".legend{list-style:none;padding:0;margin:.3rem 0;display:flex;flex-wrap:wrap;gap:.2rem "
          "1rem}\n"
          ".legend svg{width:26px;height:12px;vertical-align:middle}\n"
          "@media print{svg.chart{max-width:17cm}}\n",
          file);
    for (int i = 0; i < CHART_STYLES; i++)
        fprintf(file, ".s%d{stroke:%s}.point.s%d{fill:%s}\n", i, colours[i], i, colours[i]);
}
