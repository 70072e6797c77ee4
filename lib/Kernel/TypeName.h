//===- TypeName.h - names of element types in messages --------------------===//
#pragma once

#include "common/Types.h"

#include <string>

namespace kiln {

/// "bf16", "e4m3"; the number of an unknown type, "0x2011".
std::string nameOf(DType type);

} // namespace kiln
