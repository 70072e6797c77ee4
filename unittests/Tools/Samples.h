//===- Samples.h - times that reports show --------------------------------===//
#pragma once

#include "Trial/Statistics.h"

namespace kiln::testing {

inline SampleSummary takes(double ns) { return {ns, ns, ns, 7}; }

} // namespace kiln::testing
