// Types and layouts as text: the inverse of to_string().
#pragma once
#include <flextile/ir/layout.hpp>
#include <flextile/ir/type.hpp>

#include "scanner.hpp"

namespace flextile::ir {

/// "tile<128x64xbf16>". Fails at the place that is wrong.
Type read_type(Scanner& scanner);
/// "registers[2:1@1] lanes[32:2@0] warps[4:*]".
Layout read_layout(Scanner& scanner);

}  // namespace flextile::ir
