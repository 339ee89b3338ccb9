/*
 * Energy, power, temperature and clocks of the device that is measured: of NVIDIA GPUs by NVML, which is reached by dlopen, of CPUs by
 * Linux's powercap. What a system does not tell is NaN, never 0.
 */
#ifndef TANDEM_BENCH_RECORD_SENSORS_H
#define TANDEM_BENCH_RECORD_SENSORS_H

#include <tandem/device.h>

typedef struct sensors sensors;

typedef struct sensor_reading {
    double at_s;          /* when, on a clock of its own */
    double energy_j;      /* since some moment; only differences mean something */
    double energy_wrap_j; /* where the count begins again at 0; NaN: nowhere */
    double power_w;
    double temperature_c;
    double clock_mhz; /* of a GPU's multiprocessors */
    double throttled; /* 1: the device holds its clocks down for heat or power; 0: it does not */
    unsigned long long throttle_reasons; /* of it, NVML's bits; 0: none, or none is told */
} sensor_reading;

enum {
    SENSOR_REASONS_TEXT = 160
};

/* What holds while a program runs, for the environment record. */
typedef struct sensor_facts {
    char driver[64]; /* "": unknown */
    double power_limit_w, default_power_limit_w;
    double clock_mhz, most_clock_mhz, memory_clock_mhz, most_memory_clock_mhz;
    double link_generation, link_width;           /* of PCIe */
    double most_link_generation, most_link_width; /* that device and slot can have */
    double error_correction;                      /* 1 on, 0 off */
} sensor_facts;

/* Where sensors are looked for; tests give their own. */
typedef struct sensor_places {
    const char *nvml;     /* library */
    const char *powercap; /* folders */
    const char *hwmon, *thermal;
} sensor_places;

extern const sensor_places sensor_places_of_system;

/*
 * The sensors of a device: NVML's device at its PCI address, or of the same name, where only one has it; the packages of powercap for CPUs. NULL where there
 * are none. The caller closes them.
 */
sensors *sensors_open(const sensor_places *places, const tdm_device_info *device);
void sensors_close(sensors *own);

/* All NaN for NULL. */
sensor_reading sensors_read(const sensors *own);
sensor_facts sensors_facts(const sensors *own);

/* "power-cap, heat"; "" for 0. */
void sensors_name_reasons(unsigned long long reasons, char text[SENSOR_REASONS_TEXT]);

/* Joules from one reading to a later one; NaN where either is. */
double sensors_joules(const sensor_reading *before, const sensor_reading *after);

#endif
