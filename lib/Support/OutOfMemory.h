//===- OutOfMemory.h - an allocation that fails ends no process -----------===//
#pragma once

namespace kiln {

/// Has LLVM's containers throw std::bad_alloc where memory is out; by
/// themselves they print and abort. This affects the copy of LLVM that this
/// code is linked with. Any thread may call it any number of times; only the
/// first call costs something.
void throwWhereMemoryIsOut();

} // namespace kiln
