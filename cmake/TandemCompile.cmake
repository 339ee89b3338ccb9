# tandem_compile: the flags of every C source of the project; nothing of it reaches an installed target.
add_library(tandem_compile INTERFACE)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# dlopen's RTLD_DEFAULT and secure_getenv are GNU names on glibc and musl alike.
target_compile_definitions(tandem_compile INTERFACE _GNU_SOURCE)
# Contraction would make the host reference differ between compilers; fma() is written where it is meant.
target_compile_options(tandem_compile INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wstrict-prototypes -Wmissing-prototypes $<$<BOOL:${TANDEM_WERROR}>:-Werror>)

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
