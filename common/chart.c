#include "common/chart.h"

#include <math.h>
#include <string.h>

#include "common/html_text.h"

/* In units of the view box; on a telephone one is about 0.8 pixels, elsewhere at most 1.5. */
static const double chart_width = 460;
static const double chart_height = 320;
static const double plot_left = 52;
static const double plot_right = 448;
static const double plot_top = 22;
static const double plot_bottom = 276;

enum {
    MAX_TICKS = 64,
    MARK_SHAPES = 4,
    MARK_ROWS = 4,
    MAX_LABELS = 256
};

/* What stands in the plot already, so that numbers are not written over it. */
typedef struct label_box {
    double left, top, right, bottom;
} label_box;

typedef struct label_boxes {
    label_box items[MAX_LABELS];
    size_t count;
} label_boxes;

typedef struct plot_axis {
    double low; /* logarithms to the base 10 */
    double high;
    double start; /* where they are drawn */
    double end;
} plot_axis;

typedef struct plot_axes {
    plot_axis x;
    plot_axis y;
} plot_axes;

static int can_be_drawn(double value) {
    return isfinite(value) && value > 0;
}

static int point_is_drawn(const chart_point *point) {
    return can_be_drawn(point->x) && can_be_drawn(point->y);
}

static double place(const plot_axis *axis, double value) {
    return axis->start +
           (log10(value) - axis->low) / (axis->high - axis->low) * (axis->end - axis->start);
}

static void widen(plot_axis *axis, double value) {
    if (!can_be_drawn(value))
        return;
    axis->low = fmin(axis->low, log10(value));
    axis->high = fmax(axis->high, log10(value));
}

/* Room around what is drawn: a twentieth, and not less than a factor of two in all. */
static void round_out(plot_axis *axis) {
    const double least = 0.15;
    const double room = fmax((axis->high - axis->low) / 20, 0.02);
    if (axis->high - axis->low < 2 * least) {
        axis->low -= least;
        axis->high += least;
    }
    axis->low -= room;
    axis->high += room;
}

/* Returns 0 when there is no point. */
static int find_axes(const chart_plot *chart, plot_axes *axes) {
    int points = 0;
    axes->x = (plot_axis){INFINITY, -INFINITY, plot_left, plot_right};
    axes->y = (plot_axis){INFINITY, -INFINITY, plot_bottom, plot_top};
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t p = 0; p < chart->series[s].count; p++) {
            const chart_point *const point = &chart->series[s].points[p];
            if (!point_is_drawn(point))
                continue;
            points++;
            widen(&axes->x, point->x);
            widen(&axes->y, point->y);
            widen(&axes->y, point->low);
            widen(&axes->y, point->high);
        }
    if (points == 0)
        return 0;
    round_out(&axes->x);
    round_out(&axes->y);
    return 1;
}

static void write_bytes(char *text, size_t size, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%.4g %s", bytes, units[unit]);
}

static void write_value(char *text, size_t size, double value, chart_unit unit) {
    if (unit == CHART_BYTES)
        write_bytes(text, size, value);
    else if (value >= 1e6)
        snprintf(text, size, "%.4g M", value * 1e-6);
    else
        snprintf(text, size, "%.4g", value);
}

/* Powers of two, or 1, 2, 5 and their tenfolds: as many as can be read. Returns their number. */
static int find_ticks(const plot_axis *axis, chart_unit unit, double *ticks) {
    static const double parts[] = {1, 2, 5};
    const double decades = axis->high - axis->low;
    int count = 0;
    if (unit == CHART_BYTES) {
        const int step = (int)fmax(1, ceil(decades / log10(2) / 6));
        const int first = (int)ceil(axis->low / log10(2) / step) * step;
        for (int e = first; e * log10(2) <= axis->high && count < MAX_TICKS; e += step)
            ticks[count++] = exp2(e);
        return count;
    }
    const int step = (int)fmax(1, ceil(decades / 8));
    const int first = (int)floor(axis->low / step) * step;
    for (int e = first; e <= axis->high; e += step)
        for (int part = 0; part < (decades < 2.5 ? 3 : 1); part++) {
            const double value = log10(parts[part]) + e;
            if (value >= axis->low && value <= axis->high && count < MAX_TICKS)
                ticks[count++] = pow(10, value);
        }
    return count;
}

static void draw_x_axis(FILE *file, const chart_plot *chart, const plot_axis *axis) {
    double ticks[MAX_TICKS];
    char label[48];
    const int count = find_ticks(axis, chart->x_unit, ticks);
    for (int i = 0; i < count; i++) {
        const double x = place(axis, ticks[i]);
        write_value(label, sizeof label, ticks[i], chart->x_unit);
        fprintf(file, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
                plot_top, x, plot_bottom);
        fprintf(file, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x,
                plot_bottom + 15, label);
    }
    fprintf(file, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">",
            (plot_left + plot_right) / 2, plot_bottom + 33);
    html_text(file, chart->x_label);
    fputs("</text>\n", file);
}

static void draw_y_axis(FILE *file, const chart_plot *chart, const plot_axis *axis) {
    double ticks[MAX_TICKS];
    char label[48];
    const int count = find_ticks(axis, CHART_PLAIN, ticks);
    for (int i = 0; i < count; i++) {
        const double y = place(axis, ticks[i]);
        write_value(label, sizeof label, ticks[i], CHART_PLAIN);
        fprintf(file, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                plot_left, y, plot_right, y);
        fprintf(file, "<text text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", plot_left - 5,
                y + 4, label);
    }
    fprintf(file, "<text x=\"4\" y=\"%.1f\">", plot_top - 9);
    html_text(file, chart->y_label);
    fputs("</text>\n", file);
}

static void draw_marks(FILE *file, const chart_plot *chart, const plot_axis *axis) {
    for (size_t i = 0; i < chart->mark_count; i++) {
        if (!can_be_drawn(chart->marks[i].x) || log10(chart->marks[i].x) < axis->low ||
            log10(chart->marks[i].x) > axis->high)
            continue;
        const double x = place(axis, chart->marks[i].x);
        fprintf(file, "<line class=\"mark\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
                plot_top, x, plot_bottom);
        fprintf(file, "<text text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">", x - 3,
                plot_bottom - 6 - 13 * (double)(i % MARK_ROWS));
        html_text(file, chart->marks[i].label);
        fputs("</text>\n", file);
    }
}

static int has_band(const chart_point *point) {
    return point_is_drawn(point) && can_be_drawn(point->low) && can_be_drawn(point->high);
}

static void draw_band(FILE *file, const chart_series *series, const plot_axes *axes) {
    size_t bands = 0;
    for (size_t i = 0; i < series->count; i++)
        bands += (size_t)has_band(&series->points[i]);
    if (bands < 2)
        return;
    fprintf(file, "<path class=\"band s%d\" d=\"", series->style % CHART_STYLES);
    const char *command = "M";
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *const point = &series->points[i];
        if (!has_band(point))
            continue;
        fprintf(file, "%s%.1f %.1f", command, place(&axes->x, point->x),
                place(&axes->y, point->high));
        command = "L";
    }
    for (size_t i = series->count; i-- > 0;) {
        const chart_point *const point = &series->points[i];
        if (has_band(point))
            fprintf(file, "L%.1f %.1f", place(&axes->x, point->x), place(&axes->y, point->low));
    }
    fputs("Z\"/>\n", file);
}

static void draw_line(FILE *file, const chart_series *series, const plot_axes *axes) {
    const char *command = "M";
    fprintf(file, "<path class=\"line %s s%d\" d=\"",
            series->form == CHART_DASHED ? "dashed" : "solid", series->style % CHART_STYLES);
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *const point = &series->points[i];
        if (!point_is_drawn(point))
            continue;
        fprintf(file, "%s%.1f %.1f", command, place(&axes->x, point->x), place(&axes->y, point->y));
        command = "L";
    }
    fputs("\"/>\n", file);
}

/* The shape of a point: it and the colour together name its series. */
static void write_shape(FILE *file, int style, double x, double y) {
    switch (style % MARK_SHAPES) {
    case 0:
        fprintf(file, "M%.1f %.1fm-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z", x, y);
        break;
    case 1:
        fprintf(file, "M%.1f %.1fm-3 -3h6v6h-6Z", x, y);
        break;
    case 2:
        fprintf(file, "M%.1f %.1fm0 -4l4 7h-8Z", x, y);
        break;
    default:
        fprintf(file, "M%.1f %.1fm0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5Z", x, y);
    }
}

static void draw_points(FILE *file, const chart_series *series, const plot_axes *axes) {
    for (size_t i = 0; i < series->count; i++) {
        const chart_point *const point = &series->points[i];
        if (!point_is_drawn(point))
            continue;
        fprintf(file, "<path class=\"point s%d\" d=\"", series->style % CHART_STYLES);
        write_shape(file, series->style, place(&axes->x, point->x), place(&axes->y, point->y));
        fputs("\">", file);
        if (point->label != NULL) {
            fputs("<title>", file);
            html_text(file, point->label);
            fputs("</title>", file);
        }
        fputs("</path>\n", file);
    }
}

/* Points with a label are numbered from 1 on through all series. */
static int is_numbered(const chart_series *series, const chart_point *point) {
    return series->form == CHART_POINTS && point->label != NULL && point_is_drawn(point);
}

static int is_free(const label_boxes *taken, const label_box *box) {
    if (box->left < plot_left || box->right > plot_right || box->top < plot_top ||
        box->bottom > plot_bottom || taken->count == MAX_LABELS)
        return 0;
    for (size_t i = 0; i < taken->count; i++) {
        const label_box *const other = &taken->items[i];
        if (box->left < other->right && other->left < box->right && box->top < other->bottom &&
            other->top < box->bottom)
            return 0;
    }
    return 1;
}

static void take_place(label_boxes *taken, const label_box *box) {
    if (taken->count < MAX_LABELS)
        taken->items[taken->count++] = *box;
}

/* Beside the point where nothing else stands; where all is taken the key alone tells of it. */
static void draw_number(FILE *file, label_boxes *taken, double x, double y, size_t number) {
    static const double sides[][2] = {{1, 0},  {-1, 0},  {0, -1}, {0, 1},
                                      {1, -1}, {-1, -1}, {1, 1},  {-1, 1}};
    const double height = 7;
    const double width = number < 10 ? 5 : number < 100 ? 9.5 : 14;
    for (size_t i = 0; i < 2 * sizeof sides / sizeof *sides; i++) {
        const double *const side = sides[i % (sizeof sides / sizeof *sides)];
        const double gap = i < sizeof sides / sizeof *sides ? 1 : 2.2;
        const double middle_x = x + side[0] * gap * (5 + width / 2);
        const double middle_y = y + side[1] * gap * (5 + height / 2);
        const label_box box = {middle_x - width / 2, middle_y - height / 2, middle_x + width / 2,
                               middle_y + height / 2};
        if (!is_free(taken, &box))
            continue;
        take_place(taken, &box);
        fprintf(file, "<text class=\"number\" x=\"%.1f\" y=\"%.1f\">%zu</text>\n", middle_x,
                box.bottom - 0.5, number);
        return;
    }
}

static void draw_numbers(FILE *file, const chart_plot *chart, const plot_axes *axes) {
    label_boxes taken = {.count = 0};
    size_t number = 0;
    for (int drawn = 0; drawn < 2; drawn++)
        for (size_t s = 0; s < chart->series_count; s++)
            for (size_t i = 0; i < chart->series[s].count; i++) {
                const chart_point *const point = &chart->series[s].points[i];
                if (!is_numbered(&chart->series[s], point))
                    continue;
                const double x = place(&axes->x, point->x);
                const double y = place(&axes->y, point->y);
                if (drawn)
                    draw_number(file, &taken, x, y, ++number);
                else
                    take_place(&taken, &(label_box){x - 3, y - 3, x + 3, y + 3});
            }
}

static void draw_series(FILE *file, const chart_plot *chart, const plot_axes *axes) {
    for (size_t s = 0; s < chart->series_count; s++)
        draw_band(file, &chart->series[s], axes);
    for (size_t s = 0; s < chart->series_count; s++)
        if (chart->series[s].form != CHART_POINTS)
            draw_line(file, &chart->series[s], axes);
    for (size_t s = 0; s < chart->series_count; s++)
        if (chart->series[s].form == CHART_POINTS)
            draw_points(file, &chart->series[s], axes);
    draw_numbers(file, chart, axes);
}

static void write_legend(FILE *file, const chart_plot *chart) {
    fputs("<ul class=\"legend\">\n", file);
    for (size_t s = 0; s < chart->series_count; s++) {
        const chart_series *const series = &chart->series[s];
        const int style = series->style % CHART_STYLES;
        fputs("<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">", file);
        if (series->form == CHART_POINTS) {
            fprintf(file, "<path class=\"point s%d\" d=\"", style);
            write_shape(file, series->style, 13, 6);
            fputs("\"/>", file);
        } else {
            fprintf(file, "<path class=\"line %s s%d\" d=\"M1 6L25 6\"/>",
                    series->form == CHART_DASHED ? "dashed" : "solid", style);
        }
        fputs("</svg> ", file);
        html_text(file, series->name);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

static void write_number_cell(FILE *file, double value, chart_unit unit) {
    char text[48] = "–";
    if (can_be_drawn(value))
        write_value(text, sizeof text, value, unit);
    fprintf(file, "<td class=\"number\">%s</td>", text);
}

static void write_point_row(FILE *file, const chart_plot *chart, const chart_series *series,
                            const chart_point *point, size_t number) {
    fputs("<tr><td>", file);
    if (number > 0)
        fprintf(file, "%zu: ", number);
    html_text(file, point->label == NULL ? series->name : point->label);
    fputs("</td>", file);
    write_number_cell(file, point->x, chart->x_unit);
    write_number_cell(file, point->y, CHART_PLAIN);
    write_number_cell(file, point->low, CHART_PLAIN);
    write_number_cell(file, point->high, CHART_PLAIN);
    fputs("</tr>\n", file);
}

static void write_marks(FILE *file, const chart_plot *chart) {
    for (size_t i = 0; i < chart->mark_count; i++) {
        if (!can_be_drawn(chart->marks[i].x))
            continue;
        fputs("<tr><td>", file);
        html_text(file, chart->marks[i].label);
        fputs("</td>", file);
        write_number_cell(file, chart->marks[i].x, chart->x_unit);
        for (int empty = 0; empty < 3; empty++)
            write_number_cell(file, NAN, CHART_PLAIN);
        fputs("</tr>\n", file);
    }
}

static void write_points(FILE *file, const chart_plot *chart) {
    size_t number = 0;
    fputs("<details><summary>The points as a table</summary><div class=\"wide\"><table>\n"
          "<thead><tr><th>what</th><th class=\"number\">",
          file);
    html_text(file, chart->x_label);
    fputs("</th><th class=\"number\">", file);
    html_text(file, chart->y_label);
    fputs("</th><th class=\"number\">from</th><th class=\"number\">to</th></tr></thead>\n<tbody>\n",
          file);
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t p = 0; p < chart->series[s].count; p++) {
            const chart_series *const series = &chart->series[s];
            const int numbered = is_numbered(series, &series->points[p]);
            number += (size_t)numbered;
            if (point_is_drawn(&series->points[p]))
                write_point_row(file, chart, series, &series->points[p], numbered ? number : 0);
        }
    write_marks(file, chart);
    fputs("</tbody></table></div></details>\n", file);
}

/* Paper unfolds nothing: there the numbers are explained below the legend, series by series. */
static void write_key(FILE *file, const chart_plot *chart) {
    char value[48];
    size_t number = 0;
    fputs("<div class=\"key\">\n", file);
    for (size_t s = 0; s < chart->series_count; s++) {
        const chart_series *const series = &chart->series[s];
        int written = 0;
        for (size_t p = 0; p < series->count; p++) {
            if (!is_numbered(series, &series->points[p]))
                continue;
            fputs(written++ == 0 ? "<p><strong>" : "; ", file);
            if (written == 1) {
                html_text(file, series->name);
                fputs("</strong> ", file);
            }
            write_value(value, sizeof value, series->points[p].y, CHART_PLAIN);
            html_format(file, "%zu: %s, %s", ++number, series->points[p].label, value);
        }
        fputs(written > 0 ? "</p>\n" : "", file);
    }
    for (size_t i = 0; i < chart->mark_count; i++) {
        write_value(value, sizeof value, chart->marks[i].x, chart->x_unit);
        fputs(i == 0 ? "<p>" : "; ", file);
        html_format(file, "%s: %s", chart->marks[i].label, value);
    }
    fputs(chart->mark_count > 0 ? "</p>\n</div>\n" : "</div>\n", file);
}

static void write_heading(FILE *file, const chart_plot *chart) {
    fprintf(file, "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"",
            chart_width, chart_height);
    html_format(file, "%s. %s", chart->title, chart->description);
    fputs("\">\n", file);
    fprintf(file, "<rect class=\"frame\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>\n",
            plot_left, plot_top, plot_right - plot_left, plot_bottom - plot_top);
}

void chart_write(FILE *file, const chart_plot *chart) {
    plot_axes axes;
    if (!find_axes(chart, &axes)) {
        fputs("<p class=\"absent\">", file);
        html_format(file, "%s: no row of this report has a point of it.", chart->title);
        fputs("</p>\n", file);
        return;
    }
    fputs("<figure>\n", file);
    write_heading(file, chart);
    draw_x_axis(file, chart, &axes.x);
    draw_y_axis(file, chart, &axes.y);
    draw_marks(file, chart, &axes.x);
    draw_series(file, chart, &axes);
    fputs("</svg>\n<figcaption>", file);
    html_text(file, chart->description);
    fputs("</figcaption>\n", file);
    write_legend(file, chart);
    write_points(file, chart);
    write_key(file, chart);
    fputs("</figure>\n", file);
}

void chart_write_style(FILE *file) {
    /* Colours that most colour-blind people tell apart (Okabe and Ito, 2008), yellow replaced for white paper. */
    static const char *const colours[CHART_STYLES] = {
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a63c7",
        "#c2185b", "#7f7f7f", "#9c6b53", "#8f8f1f", "#3a9ea5", "#a89984", "#6f8f72"};
    fputs("svg.chart{width:100%;max-width:42rem;height:auto;font:12px sans-serif}\n"
          "svg.chart text{fill:currentColor}\n"
          ".frame{fill:none;stroke:currentColor;stroke-opacity:.5}\n"
          ".grid{stroke:currentColor;stroke-opacity:.13}\n"
          ".mark{stroke:currentColor;stroke-opacity:.55;stroke-dasharray:2 3}\n"
          ".line{fill:none;stroke-width:2}.dashed{stroke-dasharray:6 4}\n"
          ".band{stroke:none!important;fill-opacity:.2}\n"
          ".point{fill-opacity:.75;stroke-width:1}\n"
          ".legend{list-style:none;padding:0;margin:.3rem 0;display:flex;flex-wrap:wrap;gap:.2rem "
          "1rem}\n"
          ".legend svg{width:26px;height:12px;vertical-align:middle}\n"
          "svg.chart .number{font-size:8px;text-anchor:middle}\n"
          ".key{display:none}\n"
          "@media print{.key{display:block;font-size:7.5pt;line-height:1.3}.key p{margin:.2rem 0}\n"
          "svg.chart{max-width:17cm}}\n",
          file);
    for (int i = 0; i < CHART_STYLES; i++)
        fprintf(file, ".s%d{stroke:%s}.band.s%d,.point.s%d{fill:%s}\n", i, colours[i], i, i,
                colours[i]);
}
