/*
 * The libraries of the CUDA toolkit that a worker calls are opened where it runs, not linked: a machine may have them in the toolkit,
 * in Python's packages or anywhere, and the worker is built from their headers alone.
 */
#ifndef TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H
#define TANDEM_BENCH_WORKERS_TOOLKIT_LIBRARY_H

#include <stddef.h>

/* A list of functions is a macro F(name) F(name) …; these make of it the members of a struct and their names. */
#define TOOLKIT_MEMBER(name) __typeof__(name) *name;
#define TOOLKIT_NAME(name) #name,

typedef struct toolkit_library {
    const char *name;             /* "cublas" of libcublas.so */
    const char *variable;         /* of the environment, which may name the file */
    int version;                  /* of the headers; one before it will do */
    const char *const *functions; /* names, up to NULL */
} toolkit_library;

/*
 * Open the library: the file that its variable names, or else the first in the folders of TANDEM_CUBLAS_PATH (separated by colons),
 * where the loader looks, in the toolkit of CUDA_HOME or CUDA_PATH, in Python packages beside PATH, and in /usr/local/cuda*. `functions` is a struct with a pointer for
 * each name. NULL, or why there is none, valid until the next call.
 */
const char *toolkit_library_open(const toolkit_library *library, void *functions);

#endif
