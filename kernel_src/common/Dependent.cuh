//===- common/Dependent.cuh - kernels that begin before the last one ends -===//
//
// Problem: between two kernels of a stream the device drains, launches and
// fills again, one to three microseconds in which memory does little. From
// sm_90 on a launch may carry an attribute (in a graph, an edge) by which its
// blocks start as soon as every block of the kernel before has *triggered* or
// ended, on SMs that have room. What they do until that kernel has ended is up
// to them. Whether a launch has the attribute is decided when it is launched:
// one kernel serves both, because without it the wait below is over at once.
//
// The rule, which every kernel keeps:
//
//   1. Each thread that reads or writes global memory calls awaitPredecessor()
//      first, or is told by one that did (through a barrier of the block). The
//      wait lasts until the grid before has ended and its writes are seen.
//   2. Before the wait a kernel reads its parameters, the tensor maps in them
//      and *constant* operands alone, those that the host names for this launch
//      (early operands). It writes no global memory at all: the grid before may
//      still read the D of this one, and a launch of the same plan uses the
//      same workspace. Prefetches to L2 are no reads.
//   3. Some thread of every block waits before the block ends, also where there
//      is nothing to compute.
//   4. A kernel may trigger at any time, also first of all. A trigger publishes
//      nothing.
//
// Why that is enough. Let C follow B and B follow A, both with the attribute. A
// trigger of B may let C start while A still runs. But B cannot end before A
// has, by rule 3; C's wait lasts until B has ended, and so until A has. By
// induction the wait lasts until everything before in the stream has ended. Up
// to the wait, C reads what none of them writes (rule 2), so it does not matter
// how many of them still run.
//
// Kernels of others. One without the attribute that follows ours is ordered
// behind all of it, as ever: ours has ended, so all before it have. One with
// the attribute has to wait before it uses what ours or an earlier kernel
// wrote: ours triggers early, and the trigger says nothing of its results. One
// before ours that has the attribute itself has to keep rule 3, or ours does
// not know whether what is before that has ended. One that never triggers lets
// ours begin when all of its blocks have ended.
//
// Triggering first of all is right for grids of more blocks than fit at once,
// too: blocks that have not started have not triggered, so the next grid begins
// with the last wave. It takes no place that a block of this grid needs, and a
// grid whose blocks wait for each other (a cooperative one) is complete before
// the next one begins.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

/// Waits until all that comes before in the stream has ended and is seen. At
/// once where the launch does not depend, and before sm_90.
inline void awaitPredecessor() {
  if constexpr (__CUDA_ARCH__ >= 900)
    ptx::griddepcontrolWait();
}

/// Lets the blocks of the kernel behind start, once all blocks of this one have
/// called it. Nothing before sm_90.
inline void allowSuccessor() {
  if constexpr (__CUDA_ARCH__ >= 900)
    ptx::griddepcontrolLaunchDependents();
}

} // namespace kiln
