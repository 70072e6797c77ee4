//===- TypeName.h - how messages call element types -----------------------===//
#pragma once

#include "common/Types.h"

#include <string>

namespace kiln {

/// "bf16", "e4m3"; the number of a type that is not known, "0x2011".
std::string nameOf(DType type);

} // namespace kiln
