# tandem_compile carries the compile flags of the project's own C sources. Installed targets do not
# depend on it.
add_library(tandem_compile INTERFACE)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# RTLD_DEFAULT (for dlsym) and secure_getenv need this definition, with both glibc and musl.
target_compile_definitions(tandem_compile INTERFACE _GNU_SOURCE)
# If compilers contracted a multiplication and an addition to an fma, the results of the host
# reference would depend on the compiler. Code that needs an fma calls fma().
target_compile_options(tandem_compile INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wstrict-prototypes -Wmissing-prototypes $<$<BOOL:${TANDEM_WERROR}>:-Werror>)

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
