/* Tests the option parser of the program: values, refusals and their messages. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command/cli_options.h"
#include "common/command/device_pick.h"
#include "tests/support/test_case.h"

typedef struct values {
    int flag;
    const char *text;
    int64_t count;
    double number;
    int64_t bytes;
    const char *choice;
    const char *choices;
    cli_texts texts;
} values;

/* Redirects the parser's output to a file. */
typedef struct capture {
    FILE *file;
    int saved_out;
    int saved_err;
    char text[8192];
} capture;

static void capture_begin(capture *own) {
    fflush(NULL);
    own->file = tmpfile();
    assert_non_null(own->file);
    own->saved_out = dup(STDOUT_FILENO);
    own->saved_err = dup(STDERR_FILENO);
    dup2(fileno(own->file), STDOUT_FILENO);
    dup2(fileno(own->file), STDERR_FILENO);
}

static void capture_end(capture *own) {
    fflush(NULL);
    dup2(own->saved_out, STDOUT_FILENO);
    dup2(own->saved_err, STDERR_FILENO);
    close(own->saved_out);
    close(own->saved_err);
    rewind(own->file);
    own->text[fread(own->text, 1, sizeof own->text - 1, own->file)] = '\0';
    fclose(own->file);
}

static cli_outcome parse(const char *line, values *out, int *first, capture *captured) {
    static char words[512];
    static char *argv[48];
    int argc = 0;
    char *rest = NULL;
    memset(out, 0, sizeof *out);
    const cli_option options[] = {
        {"flag", CLI_FLAG, &out->flag, NULL, "a flag", NULL, 0, 0},
        {"text", CLI_TEXT, &out->text, "TEXT", "a text", NULL, 0, 0},
        {"count", CLI_COUNT, &out->count, "N", "a count", NULL, 1, 99},
        {"number", CLI_NUMBER, &out->number, "X", "a number", NULL, -1, 2.5},
        {"bytes", CLI_BYTES, &out->bytes, "N", "bytes", NULL, 1, 1e12},
        {"choice", CLI_CHOICE, &out->choice, "WORD", "a choice", "red|green", 0, 0},
        {"choices", CLI_CHOICES, &out->choices, "LIST", "choices", "red|green|blue", 0, 0},
        {"each", CLI_TEXTS, &out->texts, "TEXT", "texts", NULL, 0, 0},
    };
    const cli_command command = {
        .name = "tandem try",
        .summary = "tries",
        .arguments = "FILE [OTHER]",
        .min_arguments = 1,
        .max_arguments = 2,
        CLI_OPTIONS(options),
        .notes = "A note.",
    };
    snprintf(words, sizeof words, "try %s", line);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    capture_begin(captured);
    const cli_outcome outcome = cli_parse(&command, argc, argv, first);
    capture_end(captured);
    return outcome;
}

TEST(values_reach_their_targets) {
    values got;
    capture captured;
    int first = 0;
    assert_int_equal(parse("--flag --text=a=b --count 99 file --number -0.5 --bytes 3M --choice "
                           "green --choices blue,red other",
                           &got, &first, &captured),
                     CLI_RUN);
    assert_string_equal(captured.text, "");
    assert_int_equal(got.flag, 1);
    assert_string_equal(got.text, "a=b");
    assert_int_equal(got.count, 99);
    assert_true(got.number == -0.5);
    assert_int_equal(got.bytes, 3 << 20);
    assert_string_equal(got.choice, "green");
    assert_string_equal(got.choices, "blue,red");
    assert_int_equal(first, 13); /* of 15 arguments; the two that are not options are last */
}

TEST(options_that_stand_several_times) {
    values got;
    capture captured;
    char line[512] = "f";
    assert_int_equal(parse("f --each b=c --text x --each a --text y", &got, NULL, &captured),
                     CLI_RUN);
    assert_string_equal(got.text, "y");
    assert_int_equal(got.texts.count, 2);
    assert_string_equal(got.texts.items[0], "b=c");
    assert_string_equal(got.texts.items[1], "a");
    size_t length = 1;
    for (int i = 0; i < CLI_MAX_TEXTS; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, " --each=a");
    assert_int_equal(parse(line, &got, NULL, &captured), CLI_RUN);
    assert_int_equal(got.texts.count, CLI_MAX_TEXTS);
    snprintf(line + length, sizeof line - length, " --each=a");
    assert_int_equal(parse(line, &got, NULL, &captured), CLI_REFUSED);
    assert_non_null(strstr(captured.text, "--each is given more than 32 times"));
    assert_int_equal(parse("f --each=", &got, NULL, &captured), CLI_REFUSED);
    assert_non_null(strstr(captured.text, "--each does not take '': it is empty"));
}

TEST(sizes_take_a_suffix) {
    static const struct {
        const char *line;
        int64_t bytes;
    } rows[] = {{"--bytes 7 f", 7}, {"--bytes 2K f", 2048}, {"--bytes 2G f", (int64_t)2 << 30}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        values got;
        capture captured;
        assert_int_equal(parse(rows[i].line, &got, NULL, &captured), CLI_RUN);
        assert_int_equal(got.bytes, rows[i].bytes);
    }
}

TEST(refusals_name_the_option_and_what_it_takes) {
    static const struct {
        const char *line;
        const char *sentence;
    } rows[] = {
        {"file --colour red", "unknown option '--colour'; it takes --flag, --text"},
        {"file -x", "unknown option '-x'"},
        {"file --flag=1", "--flag=1: the option takes no value"},
        {"file --text", "--text needs a value"},
        {"file --text=", "--text does not take '': it is empty"},
        {"file --count 0", "--count does not take '0': give a whole number from 1 to 99"},
        {"file --count 100", "--count does not take '100'"},
        {"file --count 5x", "--count does not take '5x'"},
        {"file --count 1e1", "--count does not take '1e1'"},
        {"file --count 99999999999999999999", "--count does not take '99999999999999999999'"},
        {"file --number 2.6", "give a number from -1 to 2.5"},
        {"file --number nan", "--number does not take 'nan'"},
        {"file --number 1e999", "--number does not take '1e999'"},
        {"file --bytes 1T", "--bytes does not take '1T'"},
        {"file --bytes 1KK", "--bytes does not take '1KK'"},
        {"file --bytes 0", "--bytes does not take '0'"},
        {"file --choice blue", "--choice does not take 'blue': choose one of red|green"},
        {"file --choice red,green", "--choice does not take 'red,green'"},
        {"file --choices red,black", "--choices does not take 'black'"},
        {"file --choices red,,blue", "--choices does not take 'red,,blue'"},
        {"file --choices red,", "--choices does not take 'red,'"},
        {"file --choices red,blue,red", "--choices names 'red' twice"},
        {"--flag", "an argument is missing: FILE [OTHER]"},
        {"one two three", "unexpected argument 'three'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        values got;
        capture captured;
        const cli_outcome outcome = parse(rows[i].line, &got, NULL, &captured);
        if (outcome != CLI_REFUSED || strstr(captured.text, rows[i].sentence) == NULL ||
            strstr(captured.text, "tandem try: ") != captured.text)
            fail_msg("'%s' gave %d: %s", rows[i].line, outcome, captured.text);
        assert_int_equal(cli_exit_code(outcome), 2);
    }
}

TEST(a_refused_option_leaves_its_target_alone) {
    values got;
    capture captured;
    assert_int_equal(parse("f --choices red,black --flag", &got, NULL, &captured), CLI_REFUSED);
    assert_null(got.choices);
    assert_int_equal(parse("f --count 0", &got, NULL, &captured), CLI_REFUSED);
    assert_int_equal(got.count, 0);
}

TEST(help_lists_every_option) {
    static const char *const parts[] = {"tandem try - tries",
                                        "usage: tandem try [options] FILE [OTHER]",
                                        "--flag",
                                        "--text TEXT",
                                        "--count N",
                                        "red|green|blue",
                                        "--help",
                                        "--version",
                                        "A note."};
    values got;
    capture captured;
    const cli_outcome outcome = parse("--help --nonsense", &got, NULL, &captured);
    assert_int_equal(outcome, CLI_DONE);
    assert_int_equal(cli_exit_code(outcome), 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(captured.text, parts[i]) == NULL)
            fail_msg("the help lacks '%s':\n%s", parts[i], captured.text);
    }
}

TEST(version_is_printed) {
    values got;
    capture captured;
    assert_int_equal(parse("--version", &got, NULL, &captured), CLI_DONE);
    assert_non_null(strstr(captured.text, "tandem try 0."));
    assert_non_null(strstr(captured.text, ", commit "));
}

TEST(devices_are_named_by_index_or_part) {
    static const struct {
        const char *selector;
        int index;
        int matches;
    } rows[] = {
        {NULL, 3, 1},
        {"", 3, 0},
        {"", 0, 0},
        {"3", 3, 1},
        {"03", 3, 1},
        {"3", 13, 0},
        {"13", 3, 0},
        {"4294967299", 3, 0},
        {"pocl", 3, 1},
        {"PoCL/pth", 3, 1},
        {"opencl/pocl/", 3, 1},
        {"cpu x3", 3, 1},
        {"CPU X3", 0, 1},
        {"X33", 3, 0},
        {"cuda", 3, 0},
        {"-1", 3, 0},
        {"3 ", 3, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (device_matches(rows[i].selector, rows[i].index, "opencl/pocl/pthread-Some CPU X3") !=
            rows[i].matches)
            fail_msg("'%s' against device %d", rows[i].selector, rows[i].index);
    }
}

static int ran;
static int helped;

static int note_run(int argc, char **argv) {
    ran = argc == 2 && strcmp(argv[0], "second") == 0;
    helped += argc == 2 && strcmp(argv[1], "--help") == 0;
    return 42;
}

static int run_group(int argc, char **argv) {
    static const cli_entry entries[] = {{"second", "runs", note_run}};
    return cli_dispatch("tandem group", "summary", entries, 1, argc, argv);
}

static int dispatch(char **argv, int argc, capture *captured) {
    static const cli_entry entries[] = {
        {"first", "does nothing", NULL},
        {"second", "runs", note_run},
        {"group", "has more", run_group},
        {"_hidden", NULL, note_run},
    };
    capture_begin(captured);
    const int code = cli_dispatch("tandem", "summary", entries, 4, argc, argv);
    capture_end(captured);
    return code;
}

/* `tandem help COMMAND` acts as `tandem COMMAND --help`. */
TEST(help_goes_before_a_command_too) {
    capture captured;
    helped = 0;
    assert_int_equal(dispatch((char *[]){"tandem", "help", "second", NULL}, 3, &captured), 42);
    assert_int_equal(helped, 1);
    assert_int_equal(dispatch((char *[]){"tandem", "help", "group", "second", NULL}, 4, &captured),
                     42);
    assert_int_equal(helped, 2);
    assert_int_equal(dispatch((char *[]){"tandem", "help", "group", NULL}, 3, &captured), 0);
    assert_non_null(strstr(captured.text, "usage: tandem group COMMAND"));
    assert_int_equal(dispatch((char *[]){"tandem", "help", "group", "third", NULL}, 4, &captured),
                     2);
    assert_non_null(strstr(captured.text, "unknown command 'third'; choose one of second"));
    static char *const unknown[] = {"third", "_hidden", "--version", "help"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_int_equal(dispatch((char *[]){"tandem", "help", unknown[i], NULL}, 3, &captured), 2);
        assert_non_null(strstr(captured.text, "; choose one of first, second, group"));
    }
    assert_int_equal(helped, 2);
    assert_int_equal(dispatch((char *[]){"tandem", "help", NULL}, 2, &captured), 0);
    assert_non_null(strstr(captured.text, "usage: tandem COMMAND"));
}

TEST(commands_are_rows) {
    capture captured;
    ran = 0;
    assert_int_equal(dispatch((char *[]){"tandem", "second", "x", NULL}, 3, &captured), 42);
    assert_int_equal(ran, 1);
    assert_int_equal(dispatch((char *[]){"tandem", "third", NULL}, 2, &captured), 2);
    assert_non_null(strstr(captured.text, "unknown command 'third'; choose one of first, second"));
    assert_null(strstr(captured.text, "_hidden"));
    assert_int_equal(dispatch((char *[]){"tandem", NULL}, 1, &captured), 2);
    assert_non_null(strstr(captured.text, "a command is missing"));
    assert_int_equal(dispatch((char *[]){"tandem", "--help", NULL}, 2, &captured), 0);
    assert_non_null(strstr(captured.text, "second       runs"));
    assert_null(strstr(captured.text, "_hidden"));
}

TEST_MAIN(NULL, NULL)
