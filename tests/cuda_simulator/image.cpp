#include "tests/cuda_simulator/image.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr uint32_t fat_magic = 0xba55ed50u;
constexpr char stand_in_magic[] = "TDM-STAND-IN\n";
constexpr uint16_t kind_ptx = 1, kind_elf = 2;
constexpr int first_architecture = 75; /* the images that names replace are not older */

template <typename T> T number(const unsigned char *at) {
    T value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Systems on a chip run only their own machine code. */
bool is_embedded(int architecture) {
    return architecture == 87 || architecture == 101 || architecture == 110;
}

/* Machine code runs on devices of its own major version and of the same or a later minor version.
 * PTX runs on all later devices. */
bool fits(uint16_t kind, int built, int architecture) {
    if (kind == kind_ptx)
        return built <= architecture;
    if (is_embedded(built) || is_embedded(architecture))
        return kind == kind_elf && built == architecture;
    return kind == kind_elf && built / 10 == architecture / 10 && built <= architecture;
}

std::string read_fat(const unsigned char *data, int architecture) {
    const uint16_t header = number<uint16_t>(data + 6);
    const uint64_t bytes = number<uint64_t>(data + 8);
    std::string built;
    for (uint64_t at = 0; at + 64 <= bytes;) {
        const unsigned char *const entry = data + header + at;
        const uint16_t kind = number<uint16_t>(entry);
        const uint32_t entry_header = number<uint32_t>(entry + 4);
        const uint64_t payload = number<uint64_t>(entry + 8);
        const int entry_architecture = static_cast<int>(number<uint32_t>(entry + 28));
        if (fits(kind, entry_architecture, architecture))
            return "";
        char text[32];
        snprintf(text, sizeof text, " %s_%d", kind == kind_ptx ? "compute" : "sm",
                 entry_architecture);
        built += text;
        at += entry_header + payload;
    }
    return "the image holds code for" + (built.empty() ? " nothing" : built);
}

} // namespace

std::string sim_image_read(const void *data, int architecture, sim_image *image, bool *is_image) {
    const unsigned char *const bytes = static_cast<const unsigned char *>(data);
    *is_image = true;
    if (strncmp(static_cast<const char *>(data), stand_in_magic, sizeof stand_in_magic - 1) == 0) {
        if (architecture < first_architecture)
            return "the image stands in for code of compute_75 and later";
        image->named = true;
        const char *line = static_cast<const char *>(data) + sizeof stand_in_magic - 1;
        while (*line != '\0') {
            const size_t length = strcspn(line, "\n");
            image->names.insert(std::string(line, length));
            line += length + (line[length] == '\n');
        }
        return "";
    }
    if (number<uint32_t>(bytes) == fat_magic)
        return read_fat(bytes, architecture);
    *is_image = false;
    return "neither a fat binary nor a stand-in";
}
