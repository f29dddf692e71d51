# find_package(flextile): targets flextile::flextile (the library, all headers), flextile::ir, flextile::dsl,
# flextile::backend, flextile::runtime, flextile::attention.
include(CMakeFindDependencyMacro)
find_dependency(Boost 1.81)
include(${CMAKE_CURRENT_LIST_DIR}/flextileTargets.cmake)
