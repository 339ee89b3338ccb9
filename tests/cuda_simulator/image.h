/*
 * What a module is loaded from: a fat binary of nvcc, or a list of names that stands in where there was no nvcc.
 */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_IMAGE_H
#define TANDEM_TESTS_CUDA_SIMULATOR_IMAGE_H

#include <set>
#include <string>

struct sim_image {
    bool named = false;          /* it lists its entries */
    std::set<std::string> names; /* those */
};

/* Empty: a device of compute capability `architecture` ÷ 10 can run the image; else why not.. */
std::string sim_image_read(const void *data, int architecture, sim_image *image, bool *is_image);

#endif
