#include "bench/report/page_head.h"

#include "common/chart.h"
#include "common/html_text.h"

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem}\n"
    "h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.2rem;margin:1.8rem 0 .4rem}\n"
    "h3{font-size:1rem;margin:1.2rem 0 .3rem}\n"
    "table{border-collapse:collapse;font-size:.875rem}\n"
    "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid "
    "#8886;vertical-align:top}\n"
    "td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td:first-child{min-width:11rem}.best td:first-child{min-width:0}.wide{overflow-x:auto}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.4rem 0}\n"
    "dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}\n"
    "figure{margin:.6rem 0}figcaption{font-size:.9rem}\n"
    ".absent,.small{font-size:.875rem;opacity:.8}td .small{font-size:.9em}\n"
    ".bad{color:#b00020;font-weight:600}\n"
    "@media(max-width:32rem){body{padding:.6rem}table{font-size:.8rem}\n"
    "ul{padding-left:1.1rem}li{overflow-wrap:anywhere}\n"
    "th,td{padding:.2rem .35rem}td:first-child{min-width:7.5rem}th.number{white-space:normal}}\n"
    "@media(prefers-color-scheme:dark){.bad{color:#ff8a80}}\n"
    "@media print{:root{color-scheme:light}body{max-width:none;font-size:10pt;padding:0}\n"
    "table{font-size:7.5pt}details{display:none}figure,tr,dl{break-inside:avoid}\n"
    "h2,h3{break-after:avoid}.wide{overflow:visible}}\n";

void page_write_head(FILE *file, const char *title) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    html_text(file, title);
    fputs("</title>\n", file);
    fputs(style, file);
    chart_write_style(file);
    fputs("</style>\n</head>\n<body>\n", file);
}
