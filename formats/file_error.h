/* Error messages that readers and writers of files share, and printable names from files. */
#ifndef TANDEM_FORMATS_FILE_ERROR_H
#define TANDEM_FORMATS_FILE_ERROR_H

/* One sentence without a full stop. Unprintable bytes of names from files are replaced. */
typedef struct file_error {
    char text[400];
} file_error;

/* Writes the message. */
void file_error_set(file_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the message and evaluates to -1. It is a macro so that compilers see the value. */
#define file_fail(error, ...) (file_error_set(error, __VA_ARGS__), -1)

typedef struct file_name {
    char text[68];
} file_name;

/* Returns a name from a file for a message: truncated to fit, unprintable bytes replaced. */
file_name file_printable(const char *name);

#endif
