/* tandem infer. argv[0] is the command's own name. Returns the exit code. */
#ifndef BENCH_INFER_MAIN_H
#define BENCH_INFER_MAIN_H

int tandem_infer_main(int argc, char **argv);

#endif
