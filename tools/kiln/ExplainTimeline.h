//===- ExplainTimeline.h - what a time is made of, to scale ---------------===//
//
// A total is a sum of results, these are sums or multiples of others, and so
// on: the path of a kernel. It is read off the figures alone (Model/Figure.h),
// so it works for any family.
//
//   sum        parts follow each other
//   product    of a time and other numbers: the time, so many times
//   quotient   of a time and a clock or a number: the time
//   maximum    the path takes the largest part
//   norm       parts run side by side and become no path: a race
//
// A result that is repeated is a box, and gets a timeline of its own. Maxima
// and norms on the path are races: their parts side by side.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "cli/Html.h"

namespace kiln::cli {

/// The timelines of the total of \p steps and of what it repeats, then the
/// races, the largest part of the total first.
Html timelineMarkup(const Derivation &steps, const DeviceModel &device);

} // namespace kiln::cli
