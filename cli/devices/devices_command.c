/* `tandem devices` lists every device that Tandem can use, and why others cannot be used. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <tandem/tandem.h>

#include "bench/bench_commands.h"
#include "bench/record/device_database.h"
#include "bench/record/environment_record.h"
#include "bench/record/results_json.h"
#include "common/command/cli_options.h"
#include "common/command/device_pick.h"
#include "common/table_print.h"

static const char command_name[] = "tandem devices";

static void bytes_cell(text_table *table, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    if (bytes == 0)
        table_cell(table, "-");
    else
        table_cell(table, "%.*f %s", value < 10 && unit > 0 ? 1 : 0, value, units[unit]);
}

static void count_cell(text_table *table, uint32_t count) {
    if (count == 0)
        table_cell(table, "-");
    else
        table_cell(table, "%u", count);
}

static void capabilities_cell(text_table *table, uint32_t capabilities) {
    char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (int bit = 0; bit < 32 && used < sizeof text; bit++) {
        const char *const name = tdm_capability_name((uint32_t)1 << bit);
        if (name != NULL && (capabilities >> bit & 1) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used == 0 ? "" : " ",
                                     name);
    }
    table_cell(table, "%s", text);
}

/* Reads the free memory. Returns false if the driver reports none, or the device does not open. */
static bool ask_free(tdm_context *context, int index, uint64_t *bytes) {
    tdm_device *device = NULL;
    tdm_memory_info info = {.struct_size = sizeof info};
    if (tdm_device_get(context, index, &device) != TDM_OK)
        return false;
    const bool known = tdm_device_memory_info(device, &info) == TDM_OK && info.free_known;
    tdm_device_release(device);
    *bytes = info.free_bytes;
    return known;
}

/* Adds the memory's type (from the datasheet: no driver reports it), clock and error correction. */
static void memory_cells(text_table *table, const tdm_device_info *info) {
    static const char *const corrections[] = {"-", "off", "on"};
    const datasheet *const sheet = datasheet_of_board(info->board_name, info->name);
    const bool has_type = sheet != NULL && sheet->memory_type != NULL;
    table_cell(table, "%s", has_type ? sheet->memory_type : "-");
    count_cell(table, info->memory_clock_mhz);
    table_cell(table, "%s", corrections[info->error_correction <= 2 ? info->error_correction : 0]);
}

static void device_row(text_table *table, tdm_context *context, int index,
                       const tdm_device_info *info) {
    uint64_t free_bytes = 0;
    table_cell(table, "%d", index);
    if (info->board_name[0] != '\0')
        table_cell(table, "%s (%s)", info->selector, info->board_name);
    else
        table_cell(table, "%s", info->selector);
    table_cell(table, "%s", results_device_type(info->type));
    count_cell(table, info->compute_units);
    count_cell(table, info->clock_mhz);
    bytes_cell(table, info->global_bytes);
    if (ask_free(context, index, &free_bytes))
        bytes_cell(table, free_bytes);
    else
        table_cell(table, "-");
    memory_cells(table, info);
    bytes_cell(table, info->cache_bytes);
    bytes_cell(table, info->local_bytes);
    table_cell(table, "%s", info->kernel_language);
    table_cell(table, "%s", info->driver_version);
    capabilities_cell(table, info->capabilities);
}

static void print_table(tdm_context *context, const char *selector) {
    text_table *const table =
        table_create(">#|device|type|>units|>MHz|>memory|>free|memory type|>memory MHz|ECC|>cache|"
                     ">local|kernels|driver|capabilities");
    tdm_device_info info;
    for (int index = device_next(context, selector, 0, &info); index >= 0;
         index = device_next(context, selector, index + 1, &info))
        device_row(table, context, index, &info);
    table_print(table, stdout);
    table_destroy(table);
    const int notes = tdm_context_note_count(context);
    if (notes > 0)
        fputs("\nskipped:\n", stdout);
    for (int note = 0; note < notes; note++)
        printf("  %s\n", tdm_context_note(context, note));
}

static int write_json(tdm_context *context, const char *selector, const char *path) {
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-devices/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    cJSON_AddItemToObject(root, "host", environment_host());
    cJSON *const devices = cJSON_AddArrayToObject(root, "devices");
    tdm_device_info info;
    for (int index = device_next(context, selector, 0, &info); index >= 0;
         index = device_next(context, selector, index + 1, &info)) {
        cJSON *const device = results_device_json(&info);
        cJSON_AddNumberToObject(device, "index", index);
        uint64_t free_bytes;
        if (ask_free(context, index, &free_bytes))
            cJSON_AddNumberToObject(device, "free_bytes", (double)free_bytes);
        else
            cJSON_AddNullToObject(device, "free_bytes");
        cJSON_AddItemToArray(devices, device);
    }
    cJSON *const notes = cJSON_AddArrayToObject(root, "notes");
    for (int note = 0; note < tdm_context_note_count(context); note++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(tdm_context_note(context, note)));
    const int failed = results_write_json(root, command_name, path);
    cJSON_Delete(root);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

/* Without a selector, the list has already shown every reason. */
static int refuse(const char *selector, const tdm_context *context) {
    if (selector != NULL)
        return device_refuse(command_name, selector, context);
    fprintf(stderr, "%s: no device was found\n", command_name);
    return CLI_EXIT_NO_DEVICE;
}

static int list_devices(const char *selector, const char *json) {
    tdm_context *context = NULL;
    const tdm_status status = tdm_context_create(NULL, &context);
    if (status != TDM_OK)
        return device_report_failure(command_name, "the library cannot be initialised", status);
    const int found = device_next(context, selector, 0, NULL) >= 0;
    const int to_stdout = json != NULL && strcmp(json, "-") == 0;
    int code = CLI_EXIT_OK;
    if (!to_stdout && (found || selector == NULL))
        print_table(context, selector);
    if (json != NULL)
        code = write_json(context, selector, json);
    if (code == CLI_EXIT_OK && !found)
        code = refuse(selector, context);
    tdm_context_destroy(context);
    return code;
}

int devices_command(int argc, char **argv) {
    const char *selector = NULL;
    const char *json = NULL;
    const cli_option options[] = {CLI_DEVICE_OPTION(&selector), CLI_JSON_OPTION(&json)};
    const cli_command command = {
        .name = command_name,
        .summary = "every backend, driver and device, and why one is missing",
        CLI_OPTIONS(options),
        .notes = "Exit code 3: there is no device, or none matches --device.",
    };
    const cli_outcome outcome = cli_parse(&command, argc, argv, NULL);
    if (outcome != CLI_RUN)
        return cli_exit_code(outcome);
    if (results_check_path(command_name, json) != 0)
        return CLI_EXIT_FAILED;
    return list_devices(selector, json);
}
