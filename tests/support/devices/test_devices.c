#include "tests/support/devices/test_devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/gemm/gemm_internal.h"

static struct {
    tdm_context *context;
    test_device devices[TEST_MAX_DEVICES];
    int count;
    int *executed; /* [device][variant], and one more column for cases without a variant */
    const char *filter;
    FILE *list; /* receives executed cases; may be NULL */
    /* These describe the running case. */
    const test_device *device;
    const tdm_variant *variant;
    char name[512];
} run;

static int columns(void) {
    return tdm_variant_count + 1;
}

static int *executed_of(const test_device *device, const tdm_variant *variant) {
    const int column = variant != NULL ? (int)(variant - tdm_variants) : tdm_variant_count;
    return &run.executed[device->index * columns() + column];
}

static int executed_on(const test_device *device) {
    int total = 0;
    for (int column = 0; column < columns(); column++)
        total += run.executed[device->index * columns() + column];
    return total;
}

static int variants_on(const test_device *device) {
    int total = 0;
    for (int i = 0; i < tdm_variant_count; i++)
        total += *executed_of(device, &tdm_variants[i]) > 0;
    return total;
}

/* ---- finding the devices ---- */

static bool add_device(int index, const tdm_device_info *info) {
    for (int i = 0; i < run.count; i++)
        if (strcmp(run.devices[i].info.selector, info->selector) == 0)
            return true;
    if (run.count == TEST_MAX_DEVICES) {
        fprintf(stderr, "test devices: more than %d\n", TEST_MAX_DEVICES);
        return false;
    }
    test_device *const device = &run.devices[run.count];
    if (tdm_device_get(run.context, index, &device->device) != TDM_OK ||
        tdm_stream_create(device->device, &device->stream) != TDM_OK) {
        fprintf(stderr, "test devices: %s cannot be opened: %s\n", info->selector,
                tdm_last_detail());
        return false;
    }
    device->info = *info;
    device->index = run.count++;
    return true;
}

/* Adds every device that `part` matches. Returns false if there is none or one cannot be opened. */
static bool add_matching(const char *part) {
    int found = 0;
    for (int i = 0; i < tdm_context_device_count(run.context); i++) {
        tdm_device_info info = {.struct_size = sizeof info};
        if (tdm_context_device_info(run.context, i, &info) != TDM_OK) {
            fprintf(stderr, "test devices: device %d: %s\n", i, tdm_last_detail());
            return false;
        }
        if (strcasestr(info.selector, part) == NULL)
            continue;
        found++;
        if (!add_device(i, &info))
            return false;
    }
    if (found == 0) {
        fprintf(stderr, "test devices: no device matches \"%s\"; found:\n", part);
        for (int i = 0; i < tdm_context_device_count(run.context); i++) {
            tdm_device_info info = {.struct_size = sizeof info};
            tdm_context_device_info(run.context, i, &info);
            fprintf(stderr, "    %s\n", info.selector);
        }
        for (int i = 0; i < tdm_context_note_count(run.context); i++)
            fprintf(stderr, "    note: %s\n", tdm_context_note(run.context, i));
    }
    return found > 0;
}

static bool find_devices(void) {
    const char *const wanted = getenv("TANDEM_TEST_DEVICES");
    if (wanted == NULL || wanted[0] == '\0')
        return add_matching("/");
    char *const list = strdup(wanted);
    bool good = list != NULL;
    char *rest = NULL;
    for (char *part = good ? strtok_r(list, ",", &rest) : NULL; part != NULL && good;
         part = strtok_r(NULL, ",", &rest))
        good = add_matching(part);
    free(list);
    return good && run.count > 0;
}

/*
 * Opens the list that TANDEM_TEST_LIST names: the devices' capabilities, then a line for each case.
 */
static bool open_list(void) {
    const char *const name = getenv("TANDEM_TEST_LIST");
    if (name == NULL)
        return true;
    run.list = fopen(name, "w");
    if (run.list == NULL) {
        fprintf(stderr, "test devices: %s: %s\n", name, strerror(errno));
        return false;
    }
    for (int i = 0; i < run.count; i++)
        fprintf(run.list, "0x%x capabilities\n", (unsigned)run.devices[i].info.capabilities);
    return true;
}

static bool close_list(void) {
    FILE *const list = run.list;
    run.list = NULL;
    return list == NULL || fclose(list) == 0;
}

int test_devices_setup(void **state) {
    (void)state;
    run.filter = getenv("TANDEM_TEST_CASE");
    if (tdm_context_create(NULL, &run.context) != TDM_OK) {
        fprintf(stderr, "test devices: no context: %s\n", tdm_last_detail());
        return -1;
    }
    if (!find_devices() || !open_list())
        return -1;
    run.executed = calloc((size_t)run.count * (size_t)columns(), sizeof *run.executed);
    return run.executed != NULL ? 0 : -1;
}

/*
 * cmocka prints that a group's teardown failed, but exits with 0 if all tests of the group passed.
 */
static void end_as_failed(void) {
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

int test_devices_teardown(void **state) {
    (void)state;
    int result = close_list() ? 0 : -1;
    int total = 0;
    for (int i = 0; i < run.count; i++) {
        test_device *const device = &run.devices[i];
        const int executed = executed_on(device);
        total += executed;
        printf("executed: %d cases, %d variants on %s\n", executed, variants_on(device),
               device->info.selector);
        if (executed == 0 && run.filter == NULL) {
            fprintf(stderr, "test devices: no case was executed on %s\n", device->info.selector);
            result = -1;
        }
        tdm_stream_destroy(device->stream);
        tdm_device_release(device->device);
    }
    if (total == 0) {
        fprintf(stderr, "test devices: no case was executed\n");
        result = -1;
    }
    tdm_context_destroy(run.context);
    free(run.executed);
    memset(&run, 0, sizeof run);
    if (result != 0)
        atexit(end_as_failed);
    return result;
}

int test_device_count(void) {
    return run.count;
}

const test_device *test_device_at(int index) {
    assert_in_range(index, 0, run.count - 1);
    return &run.devices[index];
}

tdm_context *test_context(void) {
    return run.context;
}

bool test_is_small(void) {
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    return scale != NULL && strcmp(scale, "small") == 0;
}

/* ---- cases ---- */

bool test_case_begin(const test_device *device, const char *variant, const char *format, ...) {
    const int prefix = variant != NULL ? snprintf(run.name, sizeof run.name, "%s: ", variant) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run.name + prefix, sizeof run.name - (size_t)prefix, format, arguments);
    va_end(arguments);
    run.device = device;
    run.variant = variant != NULL ? tdm_variant_find(variant) : NULL;
    if (variant != NULL && run.variant == NULL)
        test_case_fail("there is no variant of this name");
    return run.filter == NULL || strstr(run.name, run.filter) != NULL;
}

void test_case_end(void) {
    (*executed_of(run.device, run.variant))++;
    if (run.list != NULL) {
        fprintf(run.list, "0x%x %s\n", run.variant != NULL ? (unsigned)run.variant->requires : 0U,
                run.name);
    }
    run.name[0] = '\0';
}

static void print_rerun_line(void) {
    const char *const job = getenv("TANDEM_TEST_JOB");
    fprintf(stderr, "  rerun:  TANDEM_TEST_CASE='%s' ", run.name);
    if (job != NULL) {
        fprintf(stderr, "tests/run_on.sh %s %s\n", job, program_invocation_name);
    } else {
        fprintf(stderr, "TANDEM_TEST_DEVICES='%s' %s\n", run.device->info.selector,
                program_invocation_name);
    }
}

void test_case_fail(const char *format, ...) {
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (run.name[0] != '\0') {
        fprintf(stderr, "FAILED on %s\n  case:   %s\n", run.device->info.selector, run.name);
        print_rerun_line();
    }
    /* The next test of the program must not inherit the state of this one. */
    tdm_force_variant(NULL);
    tdm_fault_clear();
    fail_msg("%s", message);
    abort();
}

/* Large tensor-core tiles need more local memory than some devices with these capabilities have. */
static bool has_room(const test_device *device, const tdm_variant *variant) {
    const int32_t *const p = variant->parameters;
    return (variant->op != TDM_OP_GEMM && variant->op != TDM_OP_GEMM_INT) ||
           p[TDM_GEMM_P_FAMILY] != TDM_GEMM_TENSOR ||
           (uint64_t)p[TDM_GEMM_P_LOCAL_BYTES] <= device->info.local_bytes;
}

bool test_can_run(const test_device *device, const tdm_variant *variant) {
    return (variant->requires & ~device->info.capabilities) == 0 && has_room(device, variant);
}

void test_require_all_variants(tdm_op op) {
    int missing = 0;
    for (int d = 0; d < run.count && run.filter == NULL; d++) {
        for (int i = 0; i < tdm_variant_count; i++) {
            const tdm_variant *const variant = &tdm_variants[i];
            if (variant->op == op && test_can_run(&run.devices[d], variant) &&
                *executed_of(&run.devices[d], variant) == 0) {
                fprintf(stderr, "not executed on %s: %s\n", run.devices[d].info.selector,
                        variant->name);
                missing++;
            }
        }
    }
    assert_int_equal(missing, 0);
}

void test_expect_ok(tdm_status status, const char *expression, const char *file, int line) {
    if (status != TDM_OK) {
        test_case_fail("%s:%d: %s: %s (%s)", file, line, expression, tdm_status_text(status),
                       tdm_last_detail());
    }
}

void test_expect_refused(tdm_status actual, tdm_status expected, const char *part,
                         const char *expression, const char *file, int line) {
    if (actual != expected) {
        test_case_fail("%s:%d: %s: \"%s\" instead of \"%s\" (%s)", file, line, expression,
                       tdm_status_text(actual), tdm_status_text(expected),
                       actual == TDM_OK ? "no detail" : tdm_last_detail());
    }
    if (strstr(tdm_last_detail(), part) == NULL) {
        test_case_fail("%s:%d: %s: the detail \"%s\" does not say \"%s\"", file, line, expression,
                       tdm_last_detail(), part);
    }
}

void test_pass_caches(const test_device *device, bool pass) {
    device->device->info.cache_bytes = pass ? 1 : device->info.cache_bytes;
}
