# cmake -DBUILD= -DSTAGE= -P install_a_part.cmake
# Installs BUILD to STAGE as if its program `flextile` had not been built: it is left out, and nothing fails.
file(READ ${BUILD}/cmake_install.cmake script)
string(REPLACE "${BUILD}/bin/flextile\"" "${BUILD}/bin/not_built/flextile\"" changed "${script}")
if(changed STREQUAL script)
  message(FATAL_ERROR "${BUILD}/cmake_install.cmake does not install bin/flextile")
endif()
file(WRITE ${STAGE}.cmake "${changed}")
file(REMOVE_RECURSE ${STAGE})
execute_process(COMMAND ${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${STAGE} -DCMAKE_INSTALL_COMPONENT=programs -P ${STAGE}.cmake
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "installing without bin/flextile failed:\n${said}")
endif()
if(EXISTS ${STAGE}/bin/flextile)
  message(FATAL_ERROR "${STAGE}/bin/flextile was installed, and was not built")
endif()
