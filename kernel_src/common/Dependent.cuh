//===- common/Dependent.cuh - kernels that begin before the last one ends -===//
//
// Problem: between two kernels of a stream the device drains, launches and
// fills again, one to three microseconds in which memory does little. From
// sm_90 on a launch may carry an attribute (in a graph, an edge) that lets its
// blocks start, on SMs with room, as soon as every block of the kernel before
// has *triggered* or ended. The kernel itself has to be careful until its
// predecessor has ended. The attribute belongs to a launch: one kernel serves
// both ways, because without it the wait below is over at once.
//
// The rule, which every kernel keeps:
//
//   1. Each thread that reads or writes global memory calls awaitPredecessor()
//      first, or is told by one that did (through a barrier of the block). The
//      wait lasts until the grid before has ended and its writes are seen.
//   2. Before the wait a kernel reads only its parameters, the tensor maps in
//      them, and *constant* operands that the host names for this launch (early
//      operands). It writes no global memory at all: the grid before may still
//      read the D of this one, and a launch of the same plan uses the same
//      workspace. Prefetches to L2 do not count as reads.
//   3. Some thread of every block waits before the block ends, also where there
//      is nothing to compute.
//   4. A kernel may trigger at any time, also first of all. A trigger publishes
//      nothing.
//
// Why that is enough. Let C follow B and B follow A, both with the attribute. A
// trigger of B may let C start while A still runs. But by rule 3 B cannot end
// before A has ended. C's wait lasts until B has ended, and so until A has
// ended. By induction the wait lasts until all earlier work of the stream has
// ended. Until then C reads nothing that any of it writes (rule 2), so it does
// not matter how much of it still runs.
//
// Kernels outside of Kiln. A kernel without the attribute that follows ours is
// ordered behind all of it as usual: ours has ended, so all before it have. A
// kernel with the attribute has to wait before it uses results of ours or of an
// earlier kernel: ours triggers early, and the trigger says nothing about its
// results. A kernel before ours that has the attribute itself has to keep rule
// 3, or ours cannot know whether the work before that kernel has ended. A
// kernel that never triggers lets ours begin when all of its blocks have ended.
//
// It is right to trigger at the very start, also in grids of more blocks than
// fit at once: blocks that have not started have not triggered, so the next
// grid begins with the last wave. It takes no room that a block of this grid
// needs, and a grid whose blocks wait for each other (a cooperative one) is
// complete before the next one begins.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

/// Waits until all earlier work of the stream has ended and its writes are
/// visible. Returns at once where the launch is not dependent, and before
/// sm_90.
inline void awaitPredecessor() {
  if constexpr (__CUDA_ARCH__ >= 900)
    ptx::griddepcontrolWait();
}

/// Lets the blocks of the next kernel start once all blocks of this one have
/// called it. Does nothing before sm_90.
inline void allowSuccessor() {
  if constexpr (__CUDA_ARCH__ >= 900)
    ptx::griddepcontrolLaunchDependents();
}

} // namespace kiln
