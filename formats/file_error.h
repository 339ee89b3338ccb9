/* The error sentence that readers and writers of files share, and names from files made fit to stand in it. */
#ifndef TANDEM_FORMATS_FILE_ERROR_H
#define TANDEM_FORMATS_FILE_ERROR_H

/* What went wrong, one sentence without a full stop. Names from files stand in it with unprintable
 * bytes replaced. */
typedef struct file_error {
    char text[400];
} file_error;

/* Write the sentence. */
void file_error_set(file_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write the sentence and give -1 to return; a macro, so that compilers see the value. */
#define file_fail(error, ...) (file_error_set(error, __VA_ARGS__), -1)

typedef struct file_name {
    char text[68];
} file_name;

/* A name from a file, cut to fit and with unprintable bytes replaced, for an error sentence. */
file_name file_printable(const char *name);

#endif
