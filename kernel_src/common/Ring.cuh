//===- common/Ring.cuh - stages of shared memory in turn ------------------===//
//
// A producer fills the stages in turn, and consumers read them in the same
// order. Each stage has a barrier for full and a barrier for empty. The phase
// of a wait says which round it is for.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// A place in the ring: the next stage and its phase.
template <int kStages> struct RingPlace {
  int stage = 0;
  unsigned phase = 0;

  void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  void skip(int count) {
    stage += count;
    phase ^= stage / kStages & 1;
    stage %= kStages;
  }
};

/// A place in the ring as one number, where registers are scarcer than
/// instructions.
template <int kStages> struct RingCount {
  unsigned count = 0;

  int stage() const { return static_cast<int>(count % kStages); }
  unsigned phase() const { return count / kStages & 1; }
  RingCount next() const { return {count + 1}; }
  RingCount last() const { return {count - 1}; }
};

} // namespace kiln
