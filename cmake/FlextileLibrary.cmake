# One folder, one include root, one set of objects; all objects go into one libflextile.
#
# flextile_layer(name folder [HEADER_ONLY] [USES layers...] [PRIVATE libraries...])
#   flextile_<name>_headers   the include root folder/include and those of the layers it uses, no others:
#                             a wrong include does not compile
#   flextile_<name>_objects   the folder's sources, which may also include from folder/src
# flextile_combine(layers...)
#   flextile                  libflextile.so, of all layers' objects; flextile::flextile brings all headers
#   flextile::<name>          for users: one layer's headers, and the library

# What every source of ours is compiled with; not seen by users.
add_library(flextile_flags INTERFACE)
target_compile_features(flextile_flags INTERFACE cxx_std_20)
target_compile_options(flextile_flags INTERFACE -Wall -Wextra -Wswitch-enum $<$<BOOL:${FLEXTILE_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(flextile_flags INTERFACE -Wno-restrict)   # false alarms on std::string's operator+ (GCC bug 105651)
endif()
if(FLEXTILE_SANITIZE)
  target_compile_options(flextile_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(flextile_flags INTERFACE -fsanitize=address,undefined)
endif()

function(flextile_layer name folder)
  cmake_parse_arguments(layer "HEADER_ONLY" "" "USES;PRIVATE" ${ARGN})
  set(root ${PROJECT_SOURCE_DIR}/${folder}/include)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${root}/*.hpp)
  file(GLOB_RECURSE tables CONFIGURE_DEPENDS ${root}/*.def)
  add_library(flextile_${name}_headers INTERFACE)
  set_target_properties(flextile_${name}_headers PROPERTIES EXPORT_NAME ${name}_headers
    VERIFY_INTERFACE_HEADER_SETS ${FLEXTILE_BUILD_TESTS} INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  target_compile_features(flextile_${name}_headers INTERFACE cxx_std_20)
  target_sources(flextile_${name}_headers INTERFACE
    FILE_SET HEADERS BASE_DIRS ${root} FILES ${headers}
    FILE_SET tables TYPE HEADERS BASE_DIRS ${root} FILES ${tables})
  list(TRANSFORM layer_USES REPLACE "(.+)" "flextile_\\1_headers" OUTPUT_VARIABLE used)
  target_link_libraries(flextile_${name}_headers INTERFACE ${used})
  if(NOT layer_HEADER_ONLY)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/src/*.cpp)
    if(NOT sources)
      set(sources ${PROJECT_BINARY_DIR}/${name}_is_empty.cpp)
      file(WRITE ${sources} "")
    endif()
    add_library(flextile_${name}_objects OBJECT ${sources})
    set_target_properties(flextile_${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
    target_include_directories(flextile_${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/${folder}/src)
    target_compile_options(flextile_${name}_objects PRIVATE -ffunction-sections -fdata-sections)
    target_link_libraries(flextile_${name}_objects PRIVATE flextile_${name}_headers flextile_flags ${layer_PRIVATE})
    target_compile_definitions(flextile_${name}_objects PRIVATE FLEXTILE_VERSION="${PROJECT_VERSION}")
    set_property(GLOBAL APPEND PROPERTY FLEXTILE_PRIVATE_LIBRARIES ${layer_PRIVATE})
  endif()
  set_property(GLOBAL APPEND PROPERTY FLEXTILE_LAYERS ${name})
  set_property(GLOBAL PROPERTY FLEXTILE_FOLDER_${name} ${folder})
  set_property(GLOBAL PROPERTY FLEXTILE_USES_${name} ${layer_USES})
endfunction()

function(flextile_combine)
  set(objects "")
  foreach(name IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:flextile_${name}_objects>)
  endforeach()
  get_property(layers GLOBAL PROPERTY FLEXTILE_LAYERS)
  get_property(libraries GLOBAL PROPERTY FLEXTILE_PRIVATE_LIBRARIES)
  list(TRANSFORM layers REPLACE "(.+)" "flextile_\\1_headers" OUTPUT_VARIABLE headers)

  add_library(flextile SHARED ${objects})
  add_library(flextile::flextile ALIAS flextile)
  target_link_libraries(flextile PUBLIC ${headers} PRIVATE ${libraries})
  set_target_properties(flextile PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINKER_LANGUAGE CXX)
  target_link_options(flextile PRIVATE -Wl,--gc-sections $<$<NOT:$<BOOL:${FLEXTILE_SANITIZE}>>:-Wl,--no-undefined> $<$<BOOL:${FLEXTILE_STATIC_LLVM}>:-Wl,--exclude-libs,ALL -s>)
  if(FLEXTILE_SANITIZE)
    target_link_options(flextile PRIVATE -fsanitize=address,undefined)
  endif()

  foreach(name IN LISTS layers)
    add_library(flextile_${name} INTERFACE)
    add_library(flextile::${name} ALIAS flextile_${name})
    set_target_properties(flextile_${name} PROPERTIES EXPORT_NAME ${name})
    target_link_libraries(flextile_${name} INTERFACE flextile_${name}_headers flextile)
  endforeach()
endfunction()
