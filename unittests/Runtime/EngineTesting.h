//===- EngineTesting.h - what tests need of engines, on any driver --------===//
#pragma once

#include "kiln/kiln.h"

#include <doctest/doctest.h>

namespace kiln::testing {

inline kiln_statistics statisticsOf(kiln_engine *engine) {
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  REQUIRE(kiln_get_statistics(engine, &statistics) == KILN_SUCCESS);
  return statistics;
}

inline kiln_range rangeOf(const char *name, int64_t first, int64_t last,
                          int64_t hint = 0) {
  kiln_range range = KILN_INIT(kiln_range);
  range.name = name;
  range.first = first;
  range.last = last;
  range.hint = hint;
  return range;
}

} // namespace kiln::testing
