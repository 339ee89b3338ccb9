/*
 * Decides which drivers may be opened in this process: asks the helper process once, remembers the
 * verdict, and reports it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend_opencl/cache/program_cache.h"
#include "backend_opencl/drivers/driver_check.h"

/* The file with the verdicts on all drivers, next to the cached programs. */
#define VERDICT_FILE "driver-verdicts"
#define VERDICTS 64
/*
 * Verdicts expire, because they may depend on things outside their key, e.g. other libraries of the
 * driver.
 */
#define VERDICT_SECONDS 86400

/*
 * The outcomes of all trials of a library. The file on disk is an array of this struct. An outcome
 * of zero means that the driver works.
 */
typedef struct driver_verdict {
    tdm_program_key key;
    int64_t time;
    uint32_t chosen;            /* bit i: the loader may read driver file i */
    tdm_driver_outcome whole;   /* with all driver files */
    tdm_driver_outcome library; /* without any driver file; a copy of `whole` if not tried */
    tdm_driver_outcome files[TDM_DRIVER_FILES]; /* each together with those chosen before it */
} driver_verdict;

/* ---- keys ------------------------------------------------------------------------------------ */

/*
 * True for variables that differ between sessions, jobs and ranks but matter to no driver. It is
 * also true for those whose effect is in the list of driver files. The array holds prefixes.
 */
static bool is_irrelevant(const char *variable) {
    static const char *const names[] = {"_=",
                                        "PWD=",
                                        "OLDPWD=",
                                        "SHLVL=",
                                        "COLUMNS=",
                                        "LINES=",
                                        "TERM",
                                        "TMUX",
                                        "SSH_",
                                        "XDG_SESSION",
                                        "DBUS_",
                                        "WINDOWID=",
                                        "SLURM_",
                                        "OMPI_",
                                        "PMI",
                                        "INVOCATION_ID",
                                        "JOURNAL_STREAM",
                                        "TANDEM_",
                                        "OCL_ICD_VENDORS=",
                                        "OPENCL_VENDOR_PATH="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * Adds the environment to the key. The hashes are combined with XOR, because the order of variables
 * does not matter.
 */
static void add_environment(tdm_program_key_builder *builder) {
    tdm_program_key sum = {{0}};
    for (char *const *variable = environ; variable && *variable; variable++) {
        if (is_irrelevant(*variable))
            continue;
        tdm_program_key_builder one;
        tdm_program_key_begin(&one);
        tdm_program_key_add_text(&one, *variable);
        const tdm_program_key key = tdm_program_key_end(&one);
        for (size_t i = 0; i < sizeof sum.bytes; i++)
            sum.bytes[i] ^= key.bytes[i];
    }
    tdm_program_key_add(builder, &sum, sizeof sum);
}

/*
 * Adds the modification time, size and inode of a file. A name without a slash, which the dynamic
 * linker resolves, adds nothing.
 */
static void add_state(tdm_program_key_builder *builder, const char *path) {
    struct stat status;
    if (!strchr(path, '/') || stat(path, &status) != 0)
        return;
    const int64_t state[] = {(int64_t)status.st_mtim.tv_sec, (int64_t)status.st_mtim.tv_nsec,
                             (int64_t)status.st_size, (int64_t)status.st_ino};
    tdm_program_key_add(builder, state, sizeof state);
}

/*
 * Returns the key for verdicts of this process. It omits the state of files, because an opened
 * library cannot change any more.
 */
static tdm_program_key key_in_process(const char *library, tdm_driver_depth depth,
                                      const tdm_driver_files *list) {
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, depth == TDM_DRIVER_LOAD ? "load" : "platforms");
    tdm_program_key_add_text(&builder, library);
    for (int i = 0; i < list->count; i++)
        tdm_program_key_add_text(&builder, list->files[i].path);
    return tdm_program_key_end(&builder);
}

static tdm_program_key key_on_disk(const char *library, tdm_driver_depth depth,
                                   const tdm_driver_files *list) {
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, tdm_version_text());
    tdm_program_key_add_text(&builder, depth == TDM_DRIVER_LOAD ? "load" : "platforms");
    tdm_program_key_add_text(&builder, library);
    add_state(&builder, library);
    // This file changes whenever a package with libraries is installed.
    add_state(&builder, "/etc/ld.so.cache");
    for (int i = 0; i < list->count; i++) {
        tdm_program_key_add_text(&builder, list->files[i].library);
        add_state(&builder, list->files[i].library);
    }
    add_environment(&builder);
    return tdm_program_key_end(&builder);
}

static tdm_program_key key_of_file(void) {
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, VERDICT_FILE);
    return tdm_program_key_end(&builder);
}

/* ---- remembering ----------------------------------------------------------------------------- */

/* The last verdicts of this process, in a ring buffer. */
static driver_verdict remembered[16];
static unsigned remembered_next;

static bool recall(driver_verdict *verdict, const tdm_program_key *key) {
    for (size_t i = 0; i < sizeof remembered / sizeof remembered[0]; i++)
        if (memcmp(&remembered[i].key, key, sizeof *key) == 0) {
            *verdict = remembered[i];
            return true;
        }
    return false;
}

static void remember(const driver_verdict *verdict, const tdm_program_key *key) {
    driver_verdict *const slot =
        &remembered[remembered_next++ % (sizeof remembered / sizeof remembered[0])];
    *slot = *verdict;
    slot->key = *key;
}

/* Returns the verdicts on disk, in host memory, and their count; NULL and 0 if there are none. */
static driver_verdict *read_verdicts(tdm_program_cache *cache, size_t *count) {
    const tdm_program_key key = key_of_file();
    unsigned char *payload = NULL;
    size_t bytes = 0;
    *count = 0;
    if (!tdm_program_cache_load_file(cache, VERDICT_FILE, &key, &payload, &bytes))
        return NULL;
    if (bytes % sizeof(driver_verdict) == 0)
        *count = bytes / sizeof(driver_verdict);
    return (driver_verdict *)payload;
}

static bool find_on_disk(tdm_program_cache *cache, const tdm_program_key *key,
                         driver_verdict *verdict) {
    size_t count;
    const int64_t now = (int64_t)time(NULL);
    driver_verdict *const verdicts = read_verdicts(cache, &count);
    bool found = false;
    for (size_t i = 0; !found && i < count; i++) {
        const int64_t age = now - verdicts[i].time;
        found =
            age >= 0 && age < VERDICT_SECONDS && memcmp(&verdicts[i].key, key, sizeof *key) == 0;
        if (found)
            *verdict = verdicts[i];
    }
    tdm_host_free(verdicts);
    return found;
}

/*
 * Writes the new verdict first and drops the oldest. If two processes write at once, one verdict is
 * lost.
 */
static void write_on_disk(tdm_program_cache *cache, const driver_verdict *verdict) {
    size_t count;
    driver_verdict *const former = read_verdicts(cache, &count);
    driver_verdict *const verdicts = tdm_host_calloc(VERDICTS, sizeof *verdicts);
    if (verdicts) {
        const tdm_program_key key = key_of_file();
        size_t written = 0;
        verdicts[written++] = *verdict;
        for (size_t i = 0; i < count && written < VERDICTS; i++)
            if (memcmp(&former[i].key, &verdict->key, sizeof verdict->key) != 0)
                verdicts[written++] = former[i];
        tdm_program_cache_store_file(cache, VERDICT_FILE, &key, (const unsigned char *)verdicts,
                                     written * sizeof *verdicts);
    }
    tdm_host_free(verdicts);
    tdm_host_free(former);
}

/* ---- judging --------------------------------------------------------------------------------- */

static tdm_driver_outcome try_chosen(const char *library, const tdm_driver_files *list,
                                     uint32_t chosen) {
    tdm_driver_view view;
    if (!tdm_driver_view_open(&view, list, chosen))
        return (tdm_driver_outcome){.kind = TDM_DRIVER_UNTRIED};
    const tdm_driver_outcome outcome =
        tdm_driver_try(library, TDM_DRIVER_PLATFORMS, view.environment);
    tdm_driver_view_close(&view, false);
    return outcome;
}

/*
 * Finds the harmful driver files: adds one file after another to those that work. The loader of
 * this process will read the last working set, so that set has been tried as a whole.
 */
static void search(driver_verdict *verdict, const char *library, const tdm_driver_files *list) {
    verdict->library = try_chosen(library, list, 0);
    for (int i = 0; verdict->library.kind == TDM_DRIVER_FINE && i < list->count; i++) {
        const uint32_t more = verdict->chosen | (uint32_t)1 << i;
        verdict->files[i] = try_chosen(library, list, more);
        if (verdict->files[i].kind == TDM_DRIVER_FINE)
            verdict->chosen = more;
    }
    // If the empty set was not tried, nothing is known about single files. The failure of the whole
    // set is then the result.
    if (verdict->library.kind == TDM_DRIVER_UNTRIED)
        verdict->library = verdict->whole;
}

/* True if every trial took place. Otherwise the next process may learn more. */
static bool is_complete(const driver_verdict *verdict) {
    bool complete = verdict->whole.kind != TDM_DRIVER_UNTRIED;
    for (int i = 0; i < TDM_DRIVER_FILES; i++)
        complete = complete && verdict->files[i].kind != TDM_DRIVER_UNTRIED;
    return complete;
}

/* Takes the verdict from the disk, or tries the drivers. */
static void judge(driver_verdict *verdict, const char *library, tdm_driver_depth depth,
                  const tdm_driver_files *list) {
    char *const path = tdm_program_cache_path();
    tdm_program_cache *const cache = path ? tdm_program_cache_open(path) : NULL;
    const tdm_program_key key = key_on_disk(library, depth, list);
    if (!cache || !find_on_disk(cache, &key, verdict)) {
        *verdict = (driver_verdict){.key = key, .time = (int64_t)time(NULL)};
        verdict->whole = tdm_driver_try(library, depth, environ);
        verdict->library = verdict->whole;
        if (depth == TDM_DRIVER_PLATFORMS && !tdm_driver_is_usable(verdict->whole))
            search(verdict, library, list);
        if (cache && is_complete(verdict))
            write_on_disk(cache, verdict);
    }
    tdm_program_cache_close(cache);
    tdm_host_free(path);
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void report(tdm_notes *notes, const char *text) {
    tdm_log(TDM_LOG_WARNING, "driver", "opencl: %s", text);
    if (notes)
        tdm_notes_add(notes, "%s", text);
}

static void report_files(const driver_verdict *verdict, const char *library,
                         const tdm_driver_files *list, tdm_notes *notes) {
    char text[2 * TDM_DRIVER_TEXT + 256], reason[64];
    bool found = false;
    for (int i = 0; i < list->count; i++) {
        if (verdict->chosen >> i & 1)
            continue;
        found = true;
        snprintf(text, sizeof text,
                 "driver %s (%s) is skipped: %s when it was loaded or its platforms were queried",
                 list->files[i].path, list->files[i].library,
                 tdm_driver_outcome_text(verdict->files[i], reason, sizeof reason));
        report(notes, text);
    }
    if (found)
        return;
    snprintf(text, sizeof text,
             "%s fails with the drivers it finds: %s; it is restricted to %d working driver files",
             library, tdm_driver_outcome_text(verdict->whole, reason, sizeof reason), list->count);
    report(notes, text);
}

/*
 * Makes the loader read the chosen drivers. It reads them at its first call, so that call is made
 * under an environment that names them. The pointer `environ` is replaced, which is one store,
 * because setenv may move the array while another thread reads it.
 */
static bool read_chosen(const driver_verdict *verdict, const tdm_driver_files *list,
                        const tdm_opencl_api *api) {
    tdm_driver_view view;
    cl_uint count = 0;
    if (!tdm_driver_view_open(&view, list, verdict->chosen))
        return false;
    char **const before = environ;
    environ = view.environment;
    // OPENCL_CALL is not used: an injected fault would leave the reading of drivers to a later
    // call.
    (void)api->clGetPlatformIDs(0, NULL, &count);
    if (environ == view.environment)
        environ = before;
    tdm_driver_view_close(&view, true);
    return true;
}

/* ---- the checks ------------------------------------------------------------------------------ */

static bool is_off(void) {
    const char *const value = tdm_environment("TANDEM_DRIVER_PROBE", true);
    return value && strcmp(value, "off") == 0;
}

static tdm_status fail_library(const char *library, tdm_driver_outcome outcome, const char *when) {
    char reason[64];
    tdm_driver_outcome_text(outcome, reason, sizeof reason);
    tdm_log(TDM_LOG_WARNING, "driver", "opencl: %s is skipped: %s when %s", library, reason, when);
    return tdm_fail(TDM_NO_DEVICE, "%s is skipped: %s when %s", library, reason, when);
}

tdm_status tdm_driver_check_load(const char *library) {
    const tdm_driver_files none = {.count = 0};
    const tdm_program_key key = key_in_process(library, TDM_DRIVER_LOAD, &none);
    driver_verdict verdict;
    if (is_off())
        return TDM_OK;
    if (!recall(&verdict, &key)) {
        judge(&verdict, library, TDM_DRIVER_LOAD, &none);
        remember(&verdict, &key);
    }
    return tdm_driver_is_usable(verdict.whole)
               ? TDM_OK
               : fail_library(library, verdict.whole, "it was loaded");
}

static tdm_status check_platforms(const char *library, const tdm_opencl_api *api,
                                  const tdm_driver_files *list, tdm_notes *notes) {
    const tdm_program_key key = key_in_process(library, TDM_DRIVER_PLATFORMS, list);
    driver_verdict verdict;
    // If this process has the verdict already, the loader has read its drivers.
    const bool known = recall(&verdict, &key);
    if (!known)
        judge(&verdict, library, TDM_DRIVER_PLATFORMS, list);
    const bool is_partial =
        tdm_driver_is_usable(verdict.library) && !tdm_driver_is_usable(verdict.whole);
    if (is_partial)
        report_files(&verdict, library, list, notes);
    if (is_partial && !known && !read_chosen(&verdict, list, api))
        return tdm_fail(TDM_NO_DEVICE,
                        "%s: cannot create a temporary folder for the working drivers", library);
    if (!known)
        remember(&verdict, &key);
    return tdm_driver_is_usable(verdict.library)
               ? TDM_OK
               : fail_library(library, verdict.library, "its platforms were queried");
}

tdm_status tdm_driver_check_platforms(const char *library, const tdm_opencl_api *api,
                                      tdm_notes *notes) {
    if (is_off())
        return TDM_OK;
    tdm_driver_files *const list = tdm_host_calloc(1, sizeof *list);
    if (!list)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for the list of drivers");
    tdm_driver_files_list(list);
    const tdm_status status = check_platforms(library, api, list, notes);
    tdm_host_free(list);
    return status;
}
