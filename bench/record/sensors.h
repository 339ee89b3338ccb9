/*
 * Energy, power, temperature and clocks of the NVIDIA GPU that is measured, by NVML, which is reached by dlopen. What it does not tell
 * is NaN, never 0.
 */
#ifndef TANDEM_BENCH_RECORD_SENSORS_H
#define TANDEM_BENCH_RECORD_SENSORS_H

#include <tandem/device.h>

#define SENSORS_NVML "libnvidia-ml.so.1"

typedef struct sensors sensors;

typedef struct sensor_reading {
    double energy_j; /* since some moment; only differences mean something */
    double power_w;
    double temperature_c;
    double clock_mhz; /* of the multiprocessors */
    double throttled; /* 1: the device holds its clocks down for heat or power; 0: it does not */
} sensor_reading;

/* The sensors that this library has of the device at its PCI address. NULL where there are none. The caller closes them. */
sensors *sensors_open(const char *nvml, const tdm_device_info *device);
void sensors_close(sensors *own);

/* All NaN for NULL. */
sensor_reading sensors_read(const sensors *own);
double sensors_power_limit_w(const sensors *own);

#endif
