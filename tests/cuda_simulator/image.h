/*
 * An image is the source of a module. It is a fat binary of nvcc, or a list of names in a build
 * without nvcc. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_IMAGE_H
#define TANDEM_TESTS_CUDA_SIMULATOR_IMAGE_H

#include <set>
#include <string>

struct sim_image {
    bool named = false;          /* the image lists its entries */
    std::set<std::string> names; /* names of these entries */
};

/* Returns an empty string if a device of compute capability `architecture` ÷ 10 can run the image,
 * else the reason why it cannot. */
std::string sim_image_read(const void *data, int architecture, sim_image *image, bool *is_image);

#endif
