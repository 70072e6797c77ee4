//===- ByteGauge.h - bytes held now, and the most so far ------------------===//
//
// A gauge says how much memory of one kind an engine holds. Owners of memory
// keep a ByteAmount beside it, which comes and goes with them, so no path can
// forget to count. Amounts share their gauge: memory may outlive the engine
// that counts it, for example code that is kept for a context that hangs.
// Nothing here is called on a hit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

namespace kiln {

/// Bytes held now, and the most since the peak was last reset. Thread-safe and
/// lock-free.
class ByteGauge {
public:
  struct Reading {
    uint64_t bytes = 0, peakBytes = 0; ///< the peak is never the lesser
  };
  Reading read() const noexcept {
    const uint64_t now = held.load();
    return {now, std::max(most.load(), now)};
  }

  /// Makes the bytes held now the peak. Bytes that are added meanwhile count.
  void resetPeak() noexcept {
    // An addition either comes before the load, or raises the peak after the
    // store. So no order of both leaves a peak below the bytes.
    most.store(0);
    raise(held.load());
  }

private:
  friend class ByteAmount;
  void add(uint64_t bytes) noexcept { raise(held.fetch_add(bytes) + bytes); }
  void subtract(uint64_t bytes) noexcept {
    [[maybe_unused]] const uint64_t before = held.fetch_sub(bytes);
    assert(before >= bytes && "more bytes go than came");
  }
  void raise(uint64_t bytes) noexcept {
    uint64_t known = most.load();
    while (known < bytes && !most.compare_exchange_weak(known, bytes)) {
    }
  }

  std::atomic<uint64_t> held{0}, most{0};
};

using ByteGaugePtr = std::shared_ptr<ByteGauge>;

/// The part of a gauge that one owner holds; given back by the destructor.
/// Movable. Without a gauge it is a plain count. One thread at a time.
class ByteAmount {
public:
  ByteAmount() = default;
  explicit ByteAmount(ByteGaugePtr gauge, uint64_t bytes = 0) noexcept
      : gauge(std::move(gauge)) {
    set(bytes);
  }
  ByteAmount(ByteAmount &&other) noexcept
      : gauge(std::move(other.gauge)), held(std::exchange(other.held, 0)) {}
  ByteAmount &operator=(ByteAmount &&other) noexcept {
    if (this != &other) {
      set(0);
      gauge = std::move(other.gauge);
      held = std::exchange(other.held, 0);
    }
    return *this;
  }
  ~ByteAmount() { set(0); }

  uint64_t bytes() const noexcept { return held; }
  void set(uint64_t bytes) noexcept {
    if (gauge && bytes > held)
      gauge->add(bytes - held);
    else if (gauge && bytes < held)
      gauge->subtract(held - bytes);
    held = bytes;
  }
  ByteAmount &operator+=(uint64_t bytes) noexcept {
    set(held + bytes);
    return *this;
  }
  ByteAmount &operator-=(uint64_t bytes) noexcept {
    assert(held >= bytes && "more bytes go than came");
    set(held - bytes);
    return *this;
  }

private:
  ByteGaugePtr gauge;
  uint64_t held = 0;
};

/// The kinds of memory that an engine, or a command of the tool, holds.
struct MemoryGauges {
  ByteGaugePtr arenas = std::make_shared<ByteGauge>(); ///< of streams
  /// Code and constants of loaded kernels, also of trials.
  ByteGaugePtr modules = std::make_shared<ByteGauge>();
  ByteGaugePtr scratch = std::make_shared<ByteGauge>(); ///< device, of trials
  /// Host memory of stores: artifacts and entries in memory, and the table of
  /// plans.
  ByteGaugePtr host = std::make_shared<ByteGauge>();

  void resetPeaks() const noexcept {
    for (const ByteGaugePtr *gauge : {&arenas, &modules, &scratch, &host})
      (*gauge)->resetPeak();
  }
};

} // namespace kiln
