# Writes OUTPUT with the commit of SOURCE, the build TYPE, the compiler's FLAGS and the BACKENDS.
# The commit ends in "-dirty" if tracked files differ from it, and is "unknown" outside of git.
# Flags with a path are left out. The file is written only if its content changes.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit "unknown")
endif()
separate_arguments(words NATIVE_COMMAND "${FLAGS}")
list(FILTER words EXCLUDE REGEX "[/\"\\\\]")
list(JOIN words " " flags)
set(content
    "// Written by cmake/write_build_info.cmake.\n#define TANDEM_BUILD_COMMIT \"${commit}\"\n")
string(APPEND content
       "#define TANDEM_BUILD_TYPE \"${TYPE}\"\n#define TANDEM_BUILD_FLAGS \"${flags}\"\n")
string(APPEND content "#define TANDEM_BUILD_BACKENDS \"${BACKENDS}\"\n")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "${content}" @ONLY)
