#pragma once
#include <flextile/dsl/mod_node.hpp>
