// Tests driver files that are missing, broken or unusual. The context is valid and has no devices,
// and a note gives the reason.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_opencl/opencl_internal.h"
#include "tests/support/drivers/fake_driver.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

#include <tandem/device.h>

static int setup(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    fake_driver_compile("complete.so", "fake_queries.c fake_stubs.c");
    fake_driver_compile("queries_only.so", "fake_queries.c");
    fake_driver_compile("nothing.so", "-x c /dev/null");
    return 0;
}

static void expect_note(const char *library, const char *part) {
    fake_driver_expect_note("opencl", library, part);
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST(test_files_that_are_no_drivers) {
    char path[TEST_PATH], text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    test_text_write(test_folder_path(path, "empty.so"), "", 0600);
    test_text_write(test_folder_path(path, "text.so"), text, 0600);
    expect_note("absent.so", "TANDEM_OPENCL_LIBRARY=");
    expect_note("absent.so", "absent.so: cannot open shared object file");
    expect_note("empty.so", "file too short");
    expect_note("text.so", "invalid ELF header");
    expect_note("/tmp", "TANDEM_OPENCL_LIBRARY=/tmp");
    expect_note("nothing.so", "is not an OpenCL driver: it lacks clGetPlatformIDs");
    expect_note("queries_only.so", "is not an OpenCL driver: it lacks clReleaseContext");
}

/* ---- answers --------------------------------------------------------------------------------- */

TEST(test_odd_answers) {
    static const struct {
        const char *variable, *value, *note;
    } rows[] = {
        {"FAKE_PLATFORM_CODE", "-6", "clGetPlatformIDs: CL_OUT_OF_HOST_MEMORY (-6)"},
        {"FAKE_PLATFORM_CODE", "-1001", "finds no platform"},
        {"FAKE_PLATFORM_CODE", "-7777", "unknown OpenCL error (-7777)"},
        {"FAKE_PLATFORM_COUNT", "0", "finds no platform"},
        {"FAKE_PLATFORM_COUNT", "4000000000", "4000000000 platforms"},
        {"FAKE_PLATFORM_VERSION", "OpenCL 1.1 old", "OpenCL 1.2 is needed"},
        {"FAKE_PLATFORM_VERSION", "nonsense", "\"nonsense\", OpenCL 1.2 is needed"},
        {"FAKE_DEVICE_CODE", "-1", "platform \"Fake (TM) Platform\" has no devices"},
        {"FAKE_DEVICE_CODE", "-2", "clGetDeviceIDs: CL_DEVICE_NOT_AVAILABLE"},
        {"FAKE_DEVICE_COUNT", "0", "has no devices"},
        {"FAKE_DEVICE_COUNT", "2000000000", "2000000000 devices"},
        {"FAKE_DEVICE_VERSION", "OpenCL 1.0 older", "it supports \"OpenCL 1.0 older\""},
        {"FAKE_DEVICE_VERSION", "", "OpenCL 1.2 is needed"},
        {"FAKE_TYPE", "16", "custom device"},
        {"FAKE_AVAILABLE", "0", "not available"},
        {"FAKE_COMPILER", "0", "no compiler"},
        {"FAKE_LITTLE", "0", "big-endian"},
        {"FAKE_PROFILE", "EMBEDDED_PROFILE", "no 64-bit integers"},
        {"FAKE_MEMORY", "0", "no valid work-group size (64) or memory size (0 bytes"},
        {"FAKE_CONTEXT_CODE", "1", "clCreateContext: CL_OUT_OF_RESOURCES (-5)"},
        {"FAKE_CONTEXT_CODE", "0", "clCreateContext"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv(rows[i].variable, rows[i].value, 1);
        expect_note("complete.so", rows[i].note);
        unsetenv(rows[i].variable);
    }
    expect_note("complete.so", "device \"Padded Name\" of platform \"Fake (TM) Platform\"");
}

/*
 * An embedded device with 64-bit integers is accepted; only the creation of its context fails. A
 * longer name does not count as the extension. */
TEST(test_embedded_profile) {
    setenv("FAKE_PROFILE", "EMBEDDED_PROFILE", 1);
    setenv("FAKE_EXTENSIONS", "cl_a cles_khr_int64 cl_b", 1);
    expect_note("complete.so", "clCreateContext");
    setenv("FAKE_EXTENSIONS", "cl_a cles_khr_int64_not cl_b", 1);
    expect_note("complete.so", "no 64-bit integers");
    unsetenv("FAKE_PROFILE");
    unsetenv("FAKE_EXTENSIONS");
}

/* Returns the description of the fake driver's device, except for the parts that need a context. */
static tdm_device_info describe_device(void) {
    char path[TEST_PATH];
    tdm_opencl_api api = {0};
    tdm_opencl_record record = {.id = (cl_device_id)(size_t)1,
                                .platform_version = "OpenCL 1.2 fake"};
    setenv("TANDEM_OPENCL_LIBRARY", test_folder_path(path, "complete.so"), 1);
    assert_int_equal(tdm_opencl_load(&api, NULL), TDM_OK);
    unsetenv("TANDEM_OPENCL_LIBRARY");
    record.family = tdm_opencl_family_find("", "", "");
    record.extensions = tdm_opencl_device_extensions(&api, record.id);
    assert_non_null(record.extensions);
    assert_int_not_equal(tdm_opencl_describe(&api, &record), TDM_OK);
    tdm_host_free(record.extensions);
    tdm_opencl_unload(&api);
    return record.info;
}

/* AMD's drivers name a device after its chip, so the name of the board is queried too. */
TEST(test_board_and_pci_address) {
    static const char *const extensions[] = {"cl_khr_pci_bus_info", "cl_nv_device_attribute_query"};
    setenv("FAKE_BOARD_NAME", "AMD Instinct MI300X ", 1);
    assert_string_equal(describe_device().board_name, "");
    assert_string_equal(describe_device().pci_address, "");
    setenv("FAKE_EXTENSIONS", "cl_a cl_amd_device_attribute_query", 1);
    assert_string_equal(describe_device().name, "Padded Name");
    assert_string_equal(describe_device().board_name, "AMD Instinct MI300X");
    unsetenv("FAKE_BOARD_NAME");
    assert_string_equal(describe_device().board_name, "");
    for (int i = 0; i < 2; i++) {
        setenv("FAKE_EXTENSIONS", extensions[i], 1);
        assert_string_equal(describe_device().pci_address, "0001:3b:1f.2");
    }
    unsetenv("FAKE_EXTENSIONS");
}

TEST(test_hint_for_rusticl) {
    setenv("FAKE_PLATFORM_NAME", "rusticl", 1);
    setenv("FAKE_DEVICE_COUNT", "0", 1);
    expect_note("complete.so", "RUSTICL_ENABLE=llvmpipe");
    unsetenv("FAKE_PLATFORM_NAME");
    unsetenv("FAKE_DEVICE_COUNT");
}

/* ---- the loader without drivers -------------------------------------------------------------- */

/* The test runs in a child process, because a loader reads its folder once per process. */
TEST(test_no_vendor_files) {
    char vendors[128];
    snprintf(vendors, sizeof vendors, "%s/vendors", test_folder());
    assert_int_equal(mkdir(vendors, 0700), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("OCL_ICD_VENDORS", vendors, 1);
        setenv("OPENCL_VENDOR_PATH", vendors, 1);
        tdm_context *context;
        const tdm_context_options options = {.struct_size = sizeof options, .backends = "opencl"};
        if (tdm_context_create(&options, &context) != TDM_OK)
            _exit(2);
        const char *const note = tdm_context_note(context, 0);
        const bool good = tdm_context_device_count(context) == 0 && note &&
                          (strstr(note, "finds no platform") || strstr(note, "no driver"));
        if (!good)
            fprintf(stderr, "devices: %d, note: %s\n", tdm_context_device_count(context),
                    note ? note : "none");
        tdm_context_destroy(context);
        _exit(good ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* ---- tokens of a list ----------------------------------------------------------------------- */

TEST(test_words) {
    assert_true(tdm_opencl_has_token("a bc d", "bc"));
    assert_true(tdm_opencl_has_token("  bc", "bc"));
    assert_true(tdm_opencl_has_token("a bc  ", "bc"));
    assert_false(tdm_opencl_has_token("abc bcd", "bc"));
    assert_false(tdm_opencl_has_token("", "bc"));
    assert_int_equal(tdm_opencl_version_number("OpenCL 1.2 x"), 12);
    assert_int_equal(tdm_opencl_version_number("OpenCL 3.0"), 30);
    assert_int_equal(tdm_opencl_version_number("OpenCL C 1.2"), 0);
    assert_int_equal(tdm_opencl_version_number("OpenCL 1"), 0);
    char slug[16], whole[32];
    tdm_opencl_slug("ARM Platform(TM)", whole, sizeof whole);
    assert_string_equal(whole, "arm-platform-tm");
    tdm_opencl_slug("  A very long name of a platform", slug, sizeof slug);
    assert_memory_equal(slug, "a-very-long-n", 13);
    assert_true(strlen(slug) < sizeof slug);
    assert_string_equal(
        tdm_opencl_family_find("NVIDIA CUDA", "NVIDIA Corporation", "OpenCL 3.0 CUDA 12")->name,
        "nvidia");
    const char pocl[] = "OpenCL 3.0 PoCL 7.1+debian  Linux, SPIR-V, LLVM 21";
    assert_int_equal(tdm_opencl_family_version(pocl, "pocl"), 71);
    assert_int_equal(tdm_opencl_family_version("OpenCL 2.0 pocl 3.1", "pocl"), 31);
    assert_int_equal(tdm_opencl_family_version("OpenCL 3.0 PoCL HSTR: pthread", "pocl"), 0);
    assert_int_equal(tdm_opencl_family_version("OpenCL 3.0 LINUX", "pocl"), 0);
    assert_string_equal(tdm_opencl_family_find("Intel(R) OpenCL", "Intel", "OpenCL 3.0")->name,
                        "intel");
    assert_string_equal(
        tdm_opencl_family_find("Portable Computing Language", "The pocl project", "OpenCL 3.0 PoCL")
            ->name,
        "pocl");
    assert_string_equal(tdm_opencl_family_find("Something", "Else", "OpenCL 1.2")->name, "");
}

TEST_MAIN(setup, test_folder_remove)
