#include "common/chart_data.h"

#include <stdlib.h>

void chart_data_series(chart_data *data, const char *name, chart_form form, int style) {
    if (data->series_count == CHART_MAX_SERIES)
        return;
    /* A series without points makes room for the next. */
    if (data->series_count > 0 && data->series[data->series_count - 1].count == 0)
        data->series_count--;
    data->series[data->series_count++] = (chart_series){.name = name, .form = form, .style = style};
}

static int make_room(chart_data *data) {
    if (data->point_count < data->point_room)
        return 1;
    const size_t room = data->point_room == 0 ? 64 : 2 * data->point_room;
    chart_point *const points = realloc(data->points, room * sizeof *points);
    if (points == NULL) {
        data->short_of_memory = 1;
        return 0;
    }
    data->points = points;
    data->point_room = room;
    return 1;
}

void chart_data_point(chart_data *data, chart_point point) {
    if (data->series_count == 0 || !make_room(data))
        return;
    data->points[data->point_count++] = point;
    data->series[data->series_count - 1].count++;
}

void chart_data_finish(chart_data *data, chart_plot *chart) {
    size_t first = 0;
    if (data->series_count > 0 && data->series[data->series_count - 1].count == 0)
        data->series_count--;
    for (size_t s = 0; s < data->series_count; s++) {
        data->series[s].points = data->points + first;
        first += data->series[s].count;
    }
    chart->series = data->series;
    chart->series_count = data->series_count;
}

void chart_data_release(chart_data *data) {
    free(data->points);
    *data = (chart_data){.series_count = 0};
}
