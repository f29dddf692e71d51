# cmake -DROOT= -P readme_example.cmake
# The first C++ block of README.md is a part of the sample that the line before it names: <!-- sample: samples/x.cpp -->.
file(READ ${ROOT}/README.md readme)
if(NOT readme MATCHES "<!-- sample: ([a-z_/.]+) -->\n```cpp\n([^`]*)```")
  message(FATAL_ERROR "README.md has no block '<!-- sample: samples/NAME.cpp -->' followed by ```cpp")
endif()
set(name ${CMAKE_MATCH_1})
set(quoted "${CMAKE_MATCH_2}")
file(READ ${ROOT}/${name} sample)
string(FIND "${sample}" "${quoted}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md's example is not a part of ${name}; copy the lines anew")
endif()
