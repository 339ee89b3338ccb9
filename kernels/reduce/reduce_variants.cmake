# Reductions, argmax, top-k, cumulative sums, softmax and normalization. Parameters: type of the
# elements; elements of a vector; form: 1 one work-item for each output (or row), with a vector
# along the reduced elements; 2 one work-item for neighbouring outputs; 3 one work-group for each
# output (or row). Variants of one element take any strides.

set(form_rows 1)
set(form_columns 2)
set(form_group 3)

#   SOURCE  kernel source
#   KIND    part of the name behind the type, such as rows_x16
#   WITH    further defines
function(reduction)
  cmake_parse_arguments(V "" "OP;SOURCE;KIND;WIDTH;FORM;ARCH;TARGET" "TYPES;WITH" ${ARGN})
  string(TOLOWER "${V_OP}" name)
  foreach(type IN LISTS V_TYPES)
    set(integer "")
    if(type STREQUAL "s32")
      set(integer TDM_INTEGER)
    endif()
    variant(NAME ${name}_${type}_${V_KIND} OP ${V_OP} SOURCE ${V_SOURCE} ARCH ${V_ARCH}
            TARGET "${V_TARGET}"
            DEFINES DT=${type} ${integer} N=${V_WIDTH} ${V_WITH}
            PARAMETERS ${storage_${type}} ${V_WIDTH} ${form_${V_FORM}})
  endforeach()
endfunction()

# One work-group for each output on CUDA devices: 16 bytes a load.
function(reduction_for_cuda)
  cmake_parse_arguments(V "" "OP;SOURCE" "TYPES" ${ARGN})
  foreach(type IN LISTS V_TYPES)
    set(width 8)
    if(type MATCHES "32$")
      set(width 4)
    endif()
    reduction(OP ${V_OP} SOURCE ${V_SOURCE} TYPES ${type} KIND group_x${width} WIDTH ${width} FORM
                  group ARCH cuda
              TARGET cuda)
  endforeach()
endfunction()

set(all f32 f16 bf16 s32)
reduction(OP REDUCE SOURCE reduce_columns.cl TYPES ${all} KIND columns_x16 WIDTH 16 FORM columns
              ARCH cpu)
reduction(OP REDUCE SOURCE reduce_rows.cl TYPES ${all} KIND rows_x16 WIDTH 16 FORM rows ARCH cpu)
foreach(type IN LISTS all)
  reduction_for_cuda(OP REDUCE SOURCE reduce_group.cl TYPES ${type})
  reduction(OP REDUCE SOURCE reduce_group.cl TYPES ${type} KIND group WIDTH 1 FORM group ARCH any)
endforeach()
reduction(OP REDUCE SOURCE reduce_rows.cl TYPES ${all} KIND rows_x1 WIDTH 1 FORM rows ARCH any)

reduction(OP ARGMAX SOURCE argmax.cl TYPES ${all} KIND x16 WIDTH 16 FORM rows ARCH cpu)
reduction_for_cuda(OP ARGMAX SOURCE argmax_group.cl TYPES ${all})
reduction(OP ARGMAX SOURCE argmax_group.cl TYPES ${all} KIND group WIDTH 1 FORM group ARCH any)
reduction(OP ARGMAX SOURCE argmax.cl TYPES ${all} KIND x1 WIDTH 1 FORM rows ARCH any)

reduction(OP TOP_K SOURCE top_k.cl TYPES ${all} KIND group WIDTH 1 FORM group ARCH any)
reduction(OP CUMULATIVE_SUM SOURCE cumulative_sum.cl TYPES ${all} KIND group WIDTH 1 FORM group ARCH
              any)

set(floats f32 f16 bf16)
reduction(OP SOFTMAX SOURCE softmax.cl TYPES ${floats} KIND columns_x16 WIDTH 16 FORM columns ARCH
              cpu
          WITH TDM_COLUMNS)
reduction(OP SOFTMAX SOURCE softmax.cl TYPES ${floats} KIND rows_x16 WIDTH 16 FORM rows ARCH cpu)
foreach(type IN LISTS floats)
  reduction_for_cuda(OP SOFTMAX SOURCE softmax_group.cl TYPES ${type})
  reduction(OP SOFTMAX SOURCE softmax_group.cl TYPES ${type} KIND group WIDTH 1 FORM group ARCH any)
endforeach()
reduction(OP SOFTMAX SOURCE softmax.cl TYPES ${floats} KIND rows_x1 WIDTH 1 FORM rows ARCH any)

reduction(OP NORM SOURCE norm.cl TYPES ${floats} KIND rows_x16 WIDTH 16 FORM rows ARCH cpu)
foreach(type IN LISTS floats)
  reduction_for_cuda(OP NORM SOURCE norm_group.cl TYPES ${type})
  reduction(OP NORM SOURCE norm_group.cl TYPES ${type} KIND group WIDTH 1 FORM group ARCH any)
endforeach()
reduction(OP NORM SOURCE norm.cl TYPES ${floats} KIND rows_x1 WIDTH 1 FORM rows ARCH any)
