# The installed package: libflextile, headers under include/flextile, programs, and lib/cmake/flextile for find_package.
include(CMakePackageConfigHelpers)
get_property(layers GLOBAL PROPERTY FLEXTILE_LAYERS)
foreach(layer IN LISTS layers)
  install(TARGETS flextile_${layer}_headers flextile_${layer} EXPORT flextileTargets
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILE_SET tables DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(TARGETS flextile EXPORT flextileTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

write_basic_package_version_file(flextileConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT flextileTargets NAMESPACE flextile:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flextile)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/flextileConfig.cmake ${PROJECT_BINARY_DIR}/flextileConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flextile)

get_property(programs GLOBAL PROPERTY FLEXTILE_PROGRAMS)
get_property(tests GLOBAL PROPERTY FLEXTILE_TEST_PROGRAMS)
# Programs that were not built, as after tools/demo, are left out.
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs OPTIONAL)
endif()
# What tools/portable copies to a machine with a GPU and no build tools: cmake --install build/portable --component tests.
if(tests)
  install(TARGETS ${tests} RUNTIME DESTINATION tests COMPONENT tests EXCLUDE_FROM_ALL)
endif()
