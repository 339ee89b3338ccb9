# tandem_compile: the flags of every C source of the project. Installed targets do not use it.
add_library(tandem_compile INTERFACE)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# RTLD_DEFAULT of dlopen and secure_getenv need this definition on both glibc and musl.
target_compile_definitions(tandem_compile INTERFACE _GNU_SOURCE)
# Contraction would make the host reference differ between compilers. Code that needs an fma calls
# fma().
target_compile_options(tandem_compile INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wstrict-prototypes -Wmissing-prototypes $<$<BOOL:${TANDEM_WERROR}>:-Werror>)

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
