# The functions in which the tables kernels/*/*_variants.cmake list the kernel variants, and
# read_variants, which reads the tables.
#
# A row of a table names its fields; the name of the variant, its defines and its parameters are
# computed from them:
#
#     gemm_panel(TYPES f32 f16 MR 6 NR 64 VW 16 KC 512 ARCH avx512)
#
# defines the two variants gemm_f32_panel_6x64__avx512 and gemm_f16_panel_6x64__avx512. Rows of one
# operation are in order of preference, with the plain reference last. FOLDER is the folder
# kernels/.

# Sets the variables that define the words of the tables. Every reader of the tables calls this
# macro.
macro(set_words)
  # The numbers of tdm_dtype.
  set(storage_any 0)
  set(storage_f32 1)
  set(storage_f16 2)
  set(storage_bf16 3)
  set(storage_s32 16)
  set(storage_s8 17)
  set(storage_u8 18)
  set(storage_s4 19)
  set(storage_s64 20)

  # Values of ARCH: the capabilities (tdm_capability) that a device must have, and the target for
  # which clang checks the source: spir64 for portable sources, x86_64 for those with instructions
  # of x86, cuda for those with functions of CUDA.
  set(arch_any "" spir64)
  set(arch_cpu CPU_CORES spir64)
  set(arch_avx2 CPU_CORES,HOST_AVX2 spir64)
  set(arch_avx512 CPU_CORES,HOST_AVX512 spir64)
  set(arch_avx512bf16 CPU_CORES,HOST_ASSEMBLY,HOST_AVX512,HOST_BF16 x86_64)
  set(arch_vnni CPU_CORES,HOST_ASSEMBLY,HOST_VNNI x86_64)
  set(arch_amx CPU_CORES,HOST_ASSEMBLY,HOST_AMX_INT8 x86_64)
  set(arch_khr_dot INT8_DOT_KHR spir64)
  set(arch_arm_dot INT8_DOT_ARM spir64)
  set(arch_qcom_dot INT8_DOT_QCOM spir64)
  set(arch_cuda CUDA spir64)
  set(arch_dp4a CUDA cuda)
  set(arch_async CUDA,ASYNC_COPY spir64)
  set(arch_tensor CUDA,TENSOR_CORES cuda)
  set(arch_sm90a CUDA,WGMMA cuda)

  # The define of an extension of OpenCL that multiplies four bytes by four and adds the products.
  set(dot_define_khr_dot TDM_DOT4_KHR)
  set(dot_define_arm_dot TDM_DOT4_ARM)
  set(dot_define_qcom_dot TDM_DOT4_QCOM)

  set(variant_tables gemm gemm_int gemm_weights elementwise quantize copy gather reduce nn probe)
endmacro()

# Adds one variant.
#   NAME        without the part "__arch"
#   OP          of tdm_op
#   SOURCE      file name of the kernel source
#   DEFINES     macros, NAME or NAME=VALUE
#   ARCH        as above; any and cpu do not appear in the name
#   EXACT       relies on the driver's division and square root: TDM_CAP_CORRECT_DIVIDE, "exact" in
#               the name
#   X86         has instructions of x86 in addition to those of ARCH
#   NEEDS       further capabilities
#   TARGET      replaces the target of ARCH
#   PARAMETERS  the numbers of tdm_variant.parameters; those left out are 0
function(variant)
  cmake_parse_arguments(V "EXACT;X86" "NAME;OP;SOURCE;ARCH;TARGET" "DEFINES;NEEDS;PARAMETERS"
      ${ARGN})
  if(NOT V_ARCH)
    set(V_ARCH any)
  endif()
  if(NOT DEFINED arch_${V_ARCH})
    message(FATAL_ERROR "${V_NAME}: there is no ARCH ${V_ARCH}")
  endif()
  list(GET arch_${V_ARCH} 0 capabilities)
  list(GET arch_${V_ARCH} 1 target)
  string(REPLACE "," ";" capabilities "${capabilities}")
  if(V_X86)
    list(INSERT capabilities 1 HOST_ASSEMBLY)
    set(target x86_64)
  endif()
  list(APPEND capabilities ${V_NEEDS})
  set(name "${V_NAME}")
  if(V_EXACT)
    list(APPEND capabilities CORRECT_DIVIDE)
    list(APPEND V_DEFINES TDM_BUILT_IN_DIVIDE)
    string(APPEND name "__exact")
  elseif(NOT V_ARCH MATCHES "^(any|cpu)$")
    string(APPEND name "__${V_ARCH}")
  endif()
  if(V_TARGET)
    set(target "${V_TARGET}")
  endif()
  list(TRANSFORM capabilities PREPEND "TDM_CAP_")
  list(JOIN capabilities " " capabilities)
  list(TRANSFORM V_DEFINES PREPEND "-D")
  list(JOIN V_DEFINES " " defines)
  list(APPEND V_PARAMETERS 0 0 0 0 0 0 0 0)
  list(SUBLIST V_PARAMETERS 0 8 parameters)
  list(JOIN parameters "," parameters)
  set_property(GLOBAL APPEND PROPERTY tandem_variants
               "${name}|${V_OP}|${V_SOURCE}|${defines}|${capabilities}|${target}|${parameters}")
endfunction()

# Sets `result` to all variants, in the order of the tables below: lists of
# "NAME|OP|SOURCE|DEFINES|CAPABILITIES|TARGET|PARAMETERS". Those of the probes, which the library
# does not have, come last.
function(read_variants result)
  set_words()
  set_property(GLOBAL PROPERTY tandem_variants "")
  foreach(table IN LISTS variant_tables)
    file(GLOB file "${FOLDER}/*/${table}_variants.cmake")
    include("${file}")
  endforeach()
  get_property(variants GLOBAL PROPERTY tandem_variants)
  set(${result} "${variants}" PARENT_SCOPE)
endfunction()

# Sets `result` to the variants as rows of a table in C.
function(variants_as_c result)
  read_variants(variants)
  set(rows "")
  set(probes "")
  foreach(row IN LISTS variants)
    string(REPLACE "|" ";" fields "${row}")
    list(POP_FRONT fields name op source defines capabilities target parameters)
    string(REPLACE " " " | " capabilities "${capabilities}")
    if(NOT capabilities)
      set(capabilities 0)
    endif()
    string(REPLACE "," ", " parameters "${parameters}")
    set(line
        "TDM_VARIANT(${name}, ${op}, \"${source}\", \"${defines}\", ${capabilities}, \
\"${target}\", ${parameters})\n")
    if(op MATCHES "^PROBE_")
      string(APPEND probes "${line}")
    else()
      string(APPEND rows "${line}")
    endif()
  endforeach()
  set(${result} "${rows}\n#ifndef TANDEM_WITHOUT_PROBES\n${probes}#endif\n" PARENT_SCOPE)
endfunction()
