/*
 * Reads energy, power, temperature and clocks of the measured NVIDIA GPU with NVML, which is loaded
 * with dlopen. Unknown values are NaN, never 0.
 */
#ifndef TANDEM_BENCH_RECORD_SENSORS_H
#define TANDEM_BENCH_RECORD_SENSORS_H

#include <tandem/device.h>

#define SENSORS_NVML "libnvidia-ml.so.1"

typedef struct sensors sensors;

typedef struct sensor_reading {
    double energy_j; /* since an unspecified time; only differences are meaningful */
    double power_w;
    double temperature_c;
    double clock_mhz; /* of the multiprocessors */
    double throttled; /* 1: clocks are reduced, but not by idling or user settings; 0: otherwise */
} sensor_reading;

/*
 * Opens the library `nvml` and finds the device by its PCI address. Returns NULL if this fails or
 * the device's name differs, as a partition's does. The caller closes the sensors.
 */
sensors *sensors_open(const char *nvml, const tdm_device_info *device);
void sensors_close(sensors *own);

/* Returns all NaN for NULL. */
sensor_reading sensors_read(const sensors *own);
double sensors_power_limit_w(const sensors *own);

#endif
