//===- common/PtxSm90.cuh - the PTX instructions of Hopper, emulated ------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/TensorMap.h"

namespace kiln::ptx {

inline void fenceMbarrierInit() {}
inline void fenceProxyAsync() {}
inline void prefetchTensorMap(const TensorMap *) {}
inline unsigned long long createPolicyEvictLast() { return 0; }
template <int kCount> void setmaxnregDec() {}
template <int kCount> void setmaxnregInc() {}
inline void wgmmaFence() {}

inline void mbarrierInit(unsigned barrier, unsigned count) {
  kilnMachine->mbarrierInit(barrier, count);
}
inline void mbarrierArrive(unsigned barrier) {
  kilnMachine->mbarrierArrive(barrier, 0);
}
inline void mbarrierArriveExpectTx(unsigned barrier, unsigned bytes) {
  kilnMachine->mbarrierArrive(barrier, bytes);
}
inline void mbarrierArriveCluster(unsigned mapped) {
  kilnMachine->mbarrierArrive(mapped, 0);
}
inline bool mbarrierTryWait(unsigned barrier, unsigned parity) {
  return kilnMachine->mbarrierTryWait(barrier, parity);
}
inline void mbarrierWait(unsigned barrier, unsigned parity) {
  while (!mbarrierTryWait(barrier, parity)) {
  }
}
inline bool electOne() { return kilnMachine->thread->lane() == 0; }

namespace detail {
template <class... Coordinates>
void loadBox(unsigned shared, const TensorMap *map, unsigned barrier,
             unsigned clusterMask, Coordinates... coordinates) {
  const int at[] = {coordinates...};
  kilnMachine->load(shared, map, barrier, at, sizeof...(coordinates),
                    clusterMask);
}
} // namespace detail

inline void bulkLoad(unsigned shared, const void *global, unsigned bytes,
                     unsigned barrier) {
  kilnMachine->bulkLoad(shared, global, bytes, barrier);
}
inline void bulkLoad(unsigned shared, const void *global, unsigned bytes,
                     unsigned barrier, unsigned long long) {
  kilnMachine->bulkLoad(shared, global, bytes, barrier);
}
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z) {
  detail::loadBox(shared, map, barrier, 0, x, y, z);
}
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, unsigned long long) {
  detail::loadBox(shared, map, barrier, 0, x, y, z);
}
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, int w) {
  detail::loadBox(shared, map, barrier, 0, x, y, z, w);
}
inline void tmaLoad(unsigned shared, const TensorMap *map, unsigned barrier,
                    int x, int y, int z, int w, int v) {
  detail::loadBox(shared, map, barrier, 0, x, y, z, w, v);
}
inline void tmaLoadMulticast(unsigned shared, const TensorMap *map,
                             unsigned barrier, int x, int y, int z,
                             unsigned short mask) {
  detail::loadBox(shared, map, barrier, mask, x, y, z);
}
inline void tmaLoadMulticast(unsigned shared, const TensorMap *map,
                             unsigned barrier, int x, int y, int z, int w,
                             unsigned short mask) {
  detail::loadBox(shared, map, barrier, mask, x, y, z, w);
}
inline void tmaStore(const TensorMap *map, unsigned shared, int x, int y,
                     int z) {
  const int at[] = {x, y, z};
  kilnMachine->store(map, shared, at, 3);
}
inline void tmaStore(const TensorMap *map, unsigned shared, int x, int y, int z,
                     int w, int v) {
  const int at[] = {x, y, z, w, v};
  kilnMachine->store(map, shared, at, 5);
}
inline void bulkCommit() { kilnMachine->commitStores(); }
template <int kPending> void bulkWaitRead() {
  kilnMachine->waitForStores(kPending);
}

inline void stmatrixX4(unsigned shared, const unsigned (&registers)[4]) {
  detail::MatrixMove move{
      shared, {registers[0], registers[1], registers[2], registers[3]}};
  detail::moveMatrices<4, false, true>(move);
}
inline void stmatrixX4Trans(unsigned shared, const unsigned (&registers)[4]) {
  detail::MatrixMove move{
      shared, {registers[0], registers[1], registers[2], registers[3]}};
  detail::moveMatrices<4, true, true>(move);
}
inline void stmatrixX2Trans(unsigned shared, unsigned first, unsigned second) {
  detail::MatrixMove move{shared, {first, second}};
  detail::moveMatrices<2, true, true>(move);
}

inline void wgmmaCommit() { kilnMachine->commitProducts(); }
template <int kPending> void wgmmaWait() {
  kilnMachine->waitForProducts(kPending);
}
template <int kCount> void wgmmaArrived(float (&)[kCount]) {}

} // namespace kiln::ptx
