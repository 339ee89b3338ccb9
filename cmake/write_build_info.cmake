# Writes OUTPUT with the commit of SOURCE ("-dirty" where tracked files differ from it, "unknown" outside of git), the type of the build
# and the compiler's FLAGS, without those that have a path, and the BACKENDS. The file is touched only when that changes.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit "unknown")
endif()
separate_arguments(words NATIVE_COMMAND "${FLAGS}")
list(FILTER words EXCLUDE REGEX "[/\"\\\\]")
list(JOIN words " " flags)
set(content "// Written by cmake/write_build_info.cmake.\n#define TANDEM_BUILD_COMMIT \"${commit}\"\n")
string(APPEND content "#define TANDEM_BUILD_TYPE \"${TYPE}\"\n#define TANDEM_BUILD_FLAGS \"${flags}\"\n")
string(APPEND content "#define TANDEM_BUILD_BACKENDS \"${BACKENDS}\"\n")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "${content}" @ONLY)
