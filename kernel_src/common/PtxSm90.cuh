//===- common/PtxSm90.cuh - the PTX instructions of Hopper ----------------===//
//
// Barriers in shared memory, bulk copies by tensor map, and the instructions
// around wgmma (see Wgmma.cuh). As in Ptx.cuh, there is one function for each
// instruction. Source of every form: PTX ISA.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/TensorMap.h"

namespace kiln::ptx {

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// Initialises a barrier with \p count arrivals for each phase; its first phase
/// has parity 0.
inline void mbarrierInit(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(count)
               : "memory");
}

/// Makes initialised barriers visible to the cluster and to bulk copies,
/// together with a following barrier of their threads.
inline void fenceMbarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

inline void mbarrierArrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/// Arrives, and makes the phase wait for \p bytes of bulk copies.
inline void mbarrierArriveExpectTx(unsigned barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

/// Arrives at a barrier of a block of the cluster, by its mapped address. It
/// orders accesses of bulk copies only, and no other memory.
inline void mbarrierArriveCluster(unsigned mapped) {
  asm volatile(
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
          mapped)
      : "memory");
}

/// True once the phase of \p parity is over; waits a while for it.
inline bool mbarrierTryWait(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile("{\n.reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

/// Returns when the phase of \p parity is over. For a new barrier the phase
/// before its first, of parity 1, is over.
inline void mbarrierWait(unsigned barrier, unsigned parity) {
  while (!mbarrierTryWait(barrier, parity)) {
  }
}

/// True in one lane of a converged warp, always the same one. The compiler
/// understands it: the operands of a bulk copy behind it, which have to be the
/// same in all lanes, need no loop over lanes.
inline bool electOne() {
  unsigned elected;
  asm volatile("{\n.reg .pred p;\n"
               "elect.sync _|p, 0xffffffff;\n"
               "selp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// Makes this thread's writes to shared memory visible to bulk copies and wgmma
/// that start after a barrier.
inline void fenceProxyAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

inline void prefetchTensorMap(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// The cache policy for lines that L2 drops last; see also Ptx.cuh. (There is
/// no function for a neutral policy: copies with createpolicy's evict_normal
/// took up to 1.4 times as long as copies without a policy on an H200.)
inline unsigned long long createPolicyEvictLast() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Copies \p bytes from global memory to \p shared; they arrive at \p barrier.
/// \p bytes and both addresses are multiples of 16.
inline void bulkLoad(unsigned shared, const void *global, unsigned bytes,
                     unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier)
               : "memory");
}

/// bulkLoad with a cache policy for L2.
inline void bulkLoad(unsigned shared, const void *global, unsigned bytes,
                     unsigned barrier, unsigned long long policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
               : "memory");
}

/// Loads the box of \p map at (x, y, z), innermost first, to \p shared; its
/// bytes arrive at \p barrier.
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// tmaLoad with a cache policy for L2.
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

/// tmaLoad with four and five coordinates.
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

/// tmaLoad to the same place in every block of the cluster that \p mask names;
/// bytes arrive at the barrier of each.
inline void tmaLoadMulticast(unsigned shared, const TensorMap *map,
                             unsigned barrier, int x, int y, int z,
                             unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(
          shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}

inline void tmaLoadMulticast(unsigned shared, const TensorMap *map,
                             unsigned barrier, int x, int y, int z, int w,
                             unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(
          shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(mask)
      : "memory");
}

/// Stores \p shared as the box of \p map at (x, y, z); elements outside of the
/// tensor are left out. The store joins this thread's next group.
inline void tmaStore(const TensorMap *map, unsigned shared, int x, int y,
                     int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, "
      "%4}], [%1];" ::"l"(map),
      "r"(shared), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// tmaStore with five coordinates.
inline void tmaStore(const TensorMap *map, unsigned shared, int x, int y, int z,
                     int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, "
      "%4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

/// Closes the group of this thread's bulk stores.
inline void bulkCommit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's groups still read shared
/// memory.
template <int kPending> void bulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Stores four 8x8 matrices of 16-bit elements; the reverse of ldmatrixX4.
inline void stmatrixX4(unsigned shared, const unsigned (&registers)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, "
               "%4};" ::"r"(shared),
               "r"(registers[0]), "r"(registers[1]), "r"(registers[2]),
               "r"(registers[3])
               : "memory");
}

/// As stmatrixX4, with each matrix transposed.
inline void stmatrixX4Trans(unsigned shared, const unsigned (&registers)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, "
               "%3, %4};" ::"r"(shared),
               "r"(registers[0]), "r"(registers[1]), "r"(registers[2]),
               "r"(registers[3])
               : "memory");
}

/// Stores two matrices, transposed; lanes 0 to 15 give the addresses.
inline void stmatrixX2Trans(unsigned shared, unsigned first, unsigned second) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, "
               "%2};" ::"r"(shared),
               "r"(first), "r"(second)
               : "memory");
}

//===----------------------------------------------------------------------===//
// Warpgroups
//===----------------------------------------------------------------------===//

/// Gives back registers of this warpgroup, down to kCount a thread.
template <int kCount> void setmaxnregDec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Takes registers that other warpgroups gave back, up to kCount a thread.
template <int kCount> void setmaxnregInc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Must precede the first wgmma that reads registers or sums written since.
inline void wgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes the group of this warpgroup's products.
inline void wgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending groups of products are in flight.
template <int kPending> void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps all later uses of \p sums behind the wait for their products.
template <int kCount> void wgmmaArrived(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+f"(sums[i]));
}

} // namespace kiln::ptx
