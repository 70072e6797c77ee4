//===- OutOfMemory.h - an allocation that fails ends no process -----------===//
#pragma once

namespace kiln {

/// Has LLVM's containers throw std::bad_alloc where memory is out; by
/// themselves they print and abort. Of the copy of LLVM that this code is
/// linked with. Any number of calls from any threads; only the first one costs
/// something.
void throwWhereMemoryIsOut();

} // namespace kiln
