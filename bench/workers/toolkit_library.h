/*
 * A worker opens the libraries of the CUDA toolkit at run time instead of linking them. They may be
 * in the toolkit, in Python packages or elsewhere. Only their headers are needed to build the
 * worker.
 */
#ifndef TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H
#define TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H

#include <stddef.h>

/*
 * A caller lists the functions it needs in a macro LIST(F), as F(name1) F(name2) ….
 * LIST(TOOLKIT_MEMBER) declares struct members, and LIST(TOOLKIT_NAME) lists the names.
 */
#define TOOLKIT_MEMBER(name) __typeof__(name) *name;
#define TOOLKIT_NAME(name) #name,

typedef struct toolkit_library {
    const char *name;     /* "cublas" for libcublas.so */
    const char *variable; /* environment variable that may name the file */
    int version;          /* major version of the headers; the previous one is accepted too */
    const char *const *functions; /* names, ending with NULL */
} toolkit_library;

/*
 * Opens the file that the library's environment variable names. If the variable is not set, these
 * places are searched in turn:
 * - the folders in TANDEM_CUBLAS_PATH, separated by colons
 * - the folders that the dynamic loader searches
 * - the toolkit in CUDA_HOME or CUDA_PATH
 * - Python packages next to the folders in PATH
 * - /usr/local/cuda*
 *
 * `functions` points to a struct with a function pointer for each name. Returns NULL, or the reason
 * for a failure, which is valid until the next call.
 */
const char *toolkit_library_open(const toolkit_library *library, void *functions);

#endif
