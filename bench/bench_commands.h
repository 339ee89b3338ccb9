/*
 * The commands of the program are declared here; main.c has their table. Each returns the exit
 * code.
 */
#ifndef TANDEM_BENCH_BENCH_COMMANDS_H
#define TANDEM_BENCH_BENCH_COMMANDS_H

int bench_gemm_command(int argc, char **argv);
int bench_gemv_command(int argc, char **argv);
int bench_memory_command(int argc, char **argv);
int bench_quant_command(int argc, char **argv);
int bench_elementwise_command(int argc, char **argv);
int bench_nn_command(int argc, char **argv);
int bench_compute_command(int argc, char **argv);
int bench_launch_command(int argc, char **argv);
int bench_pool_command(int argc, char **argv);
int bench_outofcore_command(int argc, char **argv);
int compare_command(int argc, char **argv);
int predict_command(int argc, char **argv);
int tune_command(int argc, char **argv);
int choices_command(int argc, char **argv);
int quantize_command(int argc, char **argv);
int devices_command(int argc, char **argv);
int trace_command(int argc, char **argv);
int monitor_command(int argc, char **argv);
int infer_command(int argc, char **argv);
int report_command(int argc, char **argv);

#endif
