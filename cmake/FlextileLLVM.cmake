# flextile_llvm: LLVM 22 for the backend's sources, shared in daily builds, static in the portable one.
find_package(LLVM 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/llvm)
add_library(flextile_llvm INTERFACE)
target_include_directories(flextile_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(flextile_llvm INTERFACE ${llvm_definitions})
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(flextile_llvm INTERFACE -fno-rtti)
endif()
if(FLEXTILE_STATIC_LLVM)
  # Debian's LLVMSupport names shared libz3, libz and libzstd. The first is never reached; the others are linked statically,
  # so that the result needs nothing beyond the C and C++ libraries.
  find_library(FLEXTILE_ZSTD_STATIC libzstd.a REQUIRED)
  find_library(FLEXTILE_ZLIB_STATIC libz.a REQUIRED)
  set_target_properties(LLVMSupport PROPERTIES
    INTERFACE_LINK_LIBRARIES "rt;dl;m;${FLEXTILE_ZLIB_STATIC};${FLEXTILE_ZSTD_STATIC};LLVMDemangle")
  llvm_map_components_to_libnames(llvm_libraries NVPTX native orcjit orcdebugging passes core target)
  target_link_libraries(flextile_llvm INTERFACE ${llvm_libraries})
else()
  target_link_libraries(flextile_llvm INTERFACE LLVM)
endif()
