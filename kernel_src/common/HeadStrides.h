//===- common/HeadStrides.h - strides of rows of heads --------------------===//
//
// Compiled by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Elements from one token, head or sequence (page, where K and V are paged) to
/// the next. Elements of a row follow each other.
struct HeadStrides {
  long long token = 0, head = 0, batch = 0;
};

} // namespace kiln
