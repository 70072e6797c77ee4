//===- StepInputs.cpp -----------------------------------------------------===//
#include "StepInputs.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace llama {

StepArrays StepInputs::arraysAt(char *base, const StepRoom &room,
                                uint64_t *bytes) {
  constexpr uint64_t kAlignment = 256;
  uint64_t used = 0;
  auto take = [&](auto *&array, int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(
        reinterpret_cast<uintptr_t>(base) + used);
    used += (static_cast<uint64_t>(count) * sizeof(*array) + kAlignment - 1) /
            kAlignment * kAlignment;
  };
  StepArrays arrays{};
  take(arrays.count, 1);
  take(arrays.tokens, room.tokens);
  take(arrays.positions, room.tokens);
  take(arrays.sequences, room.tokens);
  take(arrays.lengths, room.sequences);
  take(arrays.queryOffsets, room.sequences + 1);
  take(arrays.sampleRows, room.sequences);
  take(arrays.samplePositions, room.sequences);
  take(arrays.temperature, room.sequences);
  take(arrays.topP, room.sequences);
  take(arrays.topK, room.sequences);
  take(arrays.seeds, room.sequences);
  bytes[0] = used;
  take(arrays.pageTable, room.sequences * room.columns);
  bytes[1] = used;
  return arrays;
}

static uint64_t allBytes(const StepRoom &room) {
  const uint64_t perToken = 3 * sizeof(int32_t), perSequence = 48;
  constexpr uint64_t kGaps = 13 * 256;
  return static_cast<uint64_t>(room.tokens) * perToken +
         static_cast<uint64_t>(room.sequences + 1) *
             (perSequence +
              static_cast<uint64_t>(room.columns) * sizeof(int32_t)) +
         kGaps;
}

StepInputs::StepInputs(const Gpu &gpu, const StepRoom &room)
    : gpu(gpu), size(room), pinned(gpu, allBytes(room)),
      memory(gpu, allBytes(room), MemoryUse::Inputs), copied(gpu) {
  uint64_t bytes[2];
  mirror = arraysAt(pinned.at<char>(), room, bytes);
  onDevice = arraysAt(memory.at<char>(), room, bytes);
  smallBytes = bytes[0];
  std::memset(pinned.at<char>(), 0, pinned.bytes());
  memory.zero();
}

void StepInputs::put(int32_t &field, int32_t value) {
  hasChanged |= field != value;
  field = value;
}

/// The parts that belong to a sequence: its page table and the sampler's.
void StepInputs::setSequence(int64_t row, const ScheduledSequence &sequence) {
  put(mirror.lengths[row], static_cast<int32_t>(sequence.length()));
  const SamplingParameters &sampling = sequence.sampling;
  hasChanged |= mirror.temperature[row] != sampling.temperature ||
                mirror.topP[row] != sampling.topP ||
                mirror.topK[row] != sampling.topK ||
                mirror.seeds[row] != sampling.seed;
  mirror.temperature[row] = sampling.temperature;
  mirror.topP[row] = sampling.topP;
  mirror.topK[row] = sampling.topK;
  mirror.seeds[row] = sampling.seed;
  setPages(row, sequence.pages);
}

void StepInputs::setPages(int64_t row, View<PageId> pages) {
  int32_t *to = mirror.pageTable + row * size.columns;
  if (std::equal(pages.begin(), pages.end(), to))
    return;
  std::copy(pages.begin(), pages.end(), to);
  firstRow = endRow == 0 ? row : std::min(firstRow, row);
  endRow = std::max(endRow, row + 1);
}

/// A row that no sequence has writes to the padding page and reads one key of
/// it.
void StepInputs::pad(int64_t row) {
  constexpr PageId kPages[] = {kPaddingPage};
  put(mirror.tokens[row], 0);
  put(mirror.positions[row], 0);
  put(mirror.lengths[row], 1);
  hasChanged |= mirror.temperature[row] != 0;
  mirror.temperature[row] = 0;
  setPages(row, {kPages, 1});
}

void StepInputs::setDecodes(const Step &step, int64_t bucket) {
  if (isCopying)
    copied.wait();
  const auto count = static_cast<int64_t>(step.decodes.size());
  for (int64_t row = 0; row < count; ++row) {
    const ScheduledSequence &sequence = step.decodes[static_cast<size_t>(row)];
    // A pending token is on the device already.
    put(mirror.tokens[row], sequence.tokens[0]);
    put(mirror.positions[row], static_cast<int32_t>(sequence.firstPosition));
    setSequence(row, sequence);
  }
  for (int64_t row = count; row < bucket; ++row)
    pad(row);
  put(*mirror.count, static_cast<int32_t>(count));
  int32_t *end = mirror.tokens + count;
  if (hasChanged && std::find(mirror.tokens, end, Scheduler::kPending) != end)
    throw std::logic_error("a step that changes its inputs has pending tokens");
  enqueueCopies();
}

void StepInputs::setMixed(const Step &step) {
  if (isCopying)
    copied.wait();
  hasChanged = true;
  int64_t row = 0, token = 0, samples = 0, prefillTokens = 0;
  auto add = [&](const ScheduledSequence &sequence) {
    setSequence(row, sequence);
    for (int64_t i = 0; i < sequence.tokens.size(); ++i, ++token) {
      mirror.tokens[token] = sequence.tokens[i];
      mirror.positions[token] =
          static_cast<int32_t>(sequence.firstPosition + i);
      mirror.sequences[token] = static_cast<int32_t>(row);
    }
    if (sequence.samples) {
      mirror.sampleRows[samples] = static_cast<int32_t>(token - 1);
      mirror.samplePositions[samples] = mirror.positions[token - 1];
      // The sampler's arrays are by sample, and no more than by sequence.
      mirror.temperature[samples] = sequence.sampling.temperature;
      mirror.topP[samples] = sequence.sampling.topP;
      mirror.topK[samples] = sequence.sampling.topK;
      mirror.seeds[samples] = sequence.sampling.seed;
      ++samples;
    }
    ++row;
  };
  for (const ScheduledSequence &sequence : step.decodes)
    add(sequence);
  mirror.queryOffsets[0] = 0;
  for (size_t i = 0; i < step.prefills.size(); ++i) {
    add(step.prefills[i]);
    prefillTokens += step.prefills[i].tokens.size();
    mirror.queryOffsets[i + 1] = static_cast<int32_t>(prefillTokens);
  }
  *mirror.count = static_cast<int32_t>(token);
  enqueueCopies();
}

void StepInputs::enqueueCopies() {
  isCopying = hasChanged || endRow > 0;
  if (hasChanged)
    copyToDevice(gpu, memory.address(), pinned.at<char>(), smallBytes);
  if (endRow > 0) {
    const auto rowBytes = static_cast<uint64_t>(size.columns) * sizeof(int32_t);
    const uint64_t first = static_cast<uint64_t>(firstRow) * rowBytes;
    copyToDevice(gpu,
                 reinterpret_cast<DeviceAddress>(onDevice.pageTable) + first,
                 reinterpret_cast<const char *>(mirror.pageTable) + first,
                 static_cast<uint64_t>(endRow - firstRow) * rowBytes);
  }
  if (isCopying)
    copied.record();
  hasChanged = false;
  firstRow = endRow = 0;
}

void StepInputs::advance(int64_t bucket) {
  // The mirror changes, so its copy has to be over.
  if (isCopying)
    copied.wait();
  isCopying = false;
  for (int64_t row = 0; row < bucket; ++row) {
    mirror.tokens[row] = Scheduler::kPending;
    ++mirror.positions[row];
    ++mirror.lengths[row];
  }
}

} // namespace llama
