# Writes OUTPUT with the commit of SOURCE: "-dirty" where tracked files differ from it, "unknown" outside
# of git. The file is touched only when that changes.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
     "// Written by cmake/write_build_info.cmake.\n#define TANDEM_BUILD_COMMIT \"${commit}\"\n")
