/*
 * A worker opens the libraries of the CUDA toolkit at run time instead of linking them. A machine
 * may have them in the toolkit, in Python packages or elsewhere. Only their headers are needed to
 * build the worker.
 */
#ifndef TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H
#define TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H

#include <stddef.h>

/*
 * A list of functions is a macro F(name) F(name) …; these macros turn it into struct members and
 * into names.
 */
#define TOOLKIT_MEMBER(name) __typeof__(name) *name;
#define TOOLKIT_NAME(name) #name,

typedef struct toolkit_library {
    const char *name;             /* "cublas" for libcublas.so */
    const char *variable;         /* environment variable that may name the file */
    int version;                  /* the headers' version; the one before it is accepted too */
    const char *const *functions; /* names, ending with NULL */
} toolkit_library;

/*
 * Opens the file that the library's variable names. Otherwise it tries these folders in turn:
 * TANDEM_CUBLAS_PATH (separated by colons), the loader's own, the toolkit of CUDA_HOME or
 * CUDA_PATH, Python packages next to PATH, and /usr/local/cuda*.
 *
 * `functions` is a struct with a pointer for each name. Returns NULL, or the reason of a failure,
 * which is valid until the next call.
 */
const char *toolkit_library_open(const toolkit_library *library, void *functions);

#endif
