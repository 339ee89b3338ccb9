/* tandem infer. argv[0] is the command's own name. Returns the exit code. */
#ifndef TANDEM_CLI_INFER_INFER_MAIN_H
#define TANDEM_CLI_INFER_INFER_MAIN_H

int tandem_infer_main(int argc, char **argv);

#endif
