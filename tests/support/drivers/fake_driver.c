#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/drivers/fake_driver.h"
#include "tests/support/test_folder.h"
#include "tests/support/unit.h"

void fake_driver_compile(const char *library, const char *arguments) {
    char command[2048];
    const char *const compiler = getenv("CC");
    snprintf(command, sizeof command,
             "cd '%s/tests/fake_driver' && %s -shared -fPIC -I'%s' -o '%s/%s' %s",
             TANDEM_SOURCE_DIR, compiler && *compiler ? compiler : "cc", TANDEM_SOURCE_DIR,
             test_folder(), library, arguments);
    assert_int_equal(system(command), 0);
}

tdm_context *fake_driver_context(const char *backend, const char *library) {
    char path[TEST_PATH], variable[64];
    test_folder_path(path, library);
    snprintf(variable, sizeof variable, "TANDEM_%s_LIBRARY", backend);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    setenv(variable, library[0] == '/' ? library : path, 1);
    tdm_context *context;
    const tdm_context_options options = {.struct_size = sizeof options, .backends = backend};
    assert_int_equal(tdm_context_create(&options, &context), TDM_OK);
    unsetenv(variable);
    return context;
}

void fake_driver_expect_note(const char *backend, const char *library, const char *part) {
    tdm_context *const context = fake_driver_context(backend, library);
    const int devices = tdm_context_device_count(context);
    char notes[8192] = "";
    size_t used = 0;
    for (int i = 0; i < tdm_context_note_count(context) && used < sizeof notes; i++)
        used += (size_t)snprintf(notes + used, sizeof notes - used, "%s\n",
                                 tdm_context_note(context, i));
    tdm_context_destroy(context);
    if (devices != 0 || !strstr(notes, part))
        fail_msg("%s: %d devices, and no note says \"%s\"; there is: %s", library, devices, part,
                 notes);
}
