/* The series of a chart, gathered point by point. */
#ifndef TANDEM_COMMON_CHART_DATA_H
#define TANDEM_COMMON_CHART_DATA_H

#include "common/chart.h"

enum {
    CHART_MAX_SERIES = 24
};

/* Zero-initialised: empty. When memory is short points are left out and `short_of_memory` is set. */
typedef struct chart_data {
    chart_series
        series[CHART_MAX_SERIES]; /* their points lie behind each other, set by chart_data_finish */
    size_t series_count;
    chart_point *points;
    size_t point_count;
    size_t point_room;
    int short_of_memory;
} chart_data;

/* Begin a series; its texts are borrowed. Beyond CHART_MAX_SERIES points go to the last one. */
void chart_data_series(chart_data *data, const char *name, chart_form form, int style);

/* Add a point to the series begun last. */
void chart_data_point(chart_data *data, chart_point point);

/* Give the chart the series that have points. The data must stay until it is written. */
void chart_data_finish(chart_data *data, chart_plot *chart);

void chart_data_release(chart_data *data);

#endif
