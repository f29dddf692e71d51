# cmake -DFOLDER= -P headers_stay_light.cmake
# Public headers include nothing that costs every user compile time, and nothing of LLVM or CUDA.
file(GLOB_RECURSE headers ${FOLDER}/dsl/include/*.hpp ${FOLDER}/dsl/ir/include/*.hpp ${FOLDER}/backend/include/*.hpp ${FOLDER}/runtime/include/*.hpp
  ${FOLDER}/attention/include/*.hpp)
set(wrong "")
foreach(header IN LISTS headers)
  file(STRINGS ${header} includes REGEX "^ *# *include *(<(iostream|functional|regex|boost/hana.hpp|cuda.h|cuda_runtime.h)>|[<\"]llvm)")
  foreach(include IN LISTS includes)
    string(APPEND wrong "${header}: ${include}\n")
  endforeach()
endforeach()
if(wrong)
  message(FATAL_ERROR "not allowed in a public header (docs/architecture.md, layers):\n${wrong}")
endif()
