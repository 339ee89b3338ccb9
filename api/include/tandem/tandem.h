/* Tandem: one tensor API on any OpenCL or CUDA device. This header is the whole public interface
 * except the native handles (tandem/opencl.h, tandem/cuda.h). It needs no vendor header. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <tandem/calibrate.h>
#include <tandem/device.h>
#include <tandem/dtype.h>
#include <tandem/gemm.h>
#include <tandem/memory.h>
#include <tandem/memory_control.h>
#include <tandem/nn.h>
#include <tandem/ops.h>
#include <tandem/outofcore.h>
#include <tandem/quant.h>
#include <tandem/status.h>
#include <tandem/stream.h>
#include <tandem/tensor.h>
#include <tandem/version.h>
#include <tandem/weight_stream.h>

#endif
