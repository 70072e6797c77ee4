//===- StepMessage.cpp ----------------------------------------------------===//
#include "StepMessage.h"

#include "Error.h"

#include <cstring>
#include <type_traits>

namespace llama {

namespace {

/// A sequence without what its views see.
struct SequenceHead {
  SequenceId id;
  int64_t tokens, pages, firstPosition, pageTokens, newTokens;
  SamplingParameters sampling;
  int32_t samples;
};

struct StepHead {
  int64_t decodes, prefills, tokens, sampled;
  int32_t isProbe;
};

template <class T>
void append(std::string &bytes, const T *from, int64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > 0)
    bytes.append(reinterpret_cast<const char *>(from),
                 static_cast<size_t>(count) * sizeof(T));
}

/// Takes values from the front of bytes.
class Reader {
public:
  explicit Reader(const std::string &bytes) : bytes(bytes) {}

  template <class T> void take(T *to, int64_t count) {
    const uint64_t left = (bytes.size() - used) / sizeof(T);
    if (count < 0 || static_cast<uint64_t>(count) > left)
      throw Error("a step from rank 0 is cut off");
    if (count > 0)
      std::memcpy(static_cast<void *>(to), bytes.data() + used,
                  static_cast<size_t>(count) * sizeof(T));
    used += static_cast<size_t>(count) * sizeof(T);
  }
  template <class T> T take() {
    T value{};
    take(&value, 1);
    return value;
  }
  template <class T> std::vector<T> takeAll(int64_t count) {
    const uint64_t left = (bytes.size() - used) / sizeof(T);
    if (count < 0 || static_cast<uint64_t>(count) > left)
      throw Error("a step from rank 0 is cut off");
    std::vector<T> values(static_cast<size_t>(count));
    take(values.data(), count);
    return values;
  }

private:
  const std::string &bytes;
  size_t used = 0;
};

} // namespace

std::string bytesOf(const Step &step, bool isProbe) {
  StepHead head{};
  head.decodes = static_cast<int64_t>(step.decodes.size());
  head.prefills = static_cast<int64_t>(step.prefills.size());
  head.tokens = step.tokens;
  head.sampled = step.sampled;
  head.isProbe = isProbe;
  std::string bytes;
  append(bytes, &head, 1);
  for (const auto *list : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &one : *list) {
      SequenceHead sequence{};
      sequence.id = one.id;
      sequence.tokens = one.tokens.size();
      sequence.pages = one.pages.size();
      sequence.firstPosition = one.firstPosition;
      sequence.pageTokens = one.pageTokens;
      sequence.newTokens = one.newTokens;
      sequence.sampling = one.sampling;
      sequence.samples = one.samples;
      append(bytes, &sequence, 1);
      append(bytes, one.tokens.data(), one.tokens.size());
      append(bytes, one.pages.data(), one.pages.size());
    }
  return bytes;
}

ReceivedStep::ReceivedStep(const std::string &bytes) {
  Reader reader(bytes);
  const auto head = reader.take<StepHead>();
  received.tokens = head.tokens;
  received.sampled = head.sampled;
  probes = head.isProbe != 0;
  for (int64_t i = 0; i < head.decodes + head.prefills; ++i) {
    const auto from = reader.take<SequenceHead>();
    tokens.push_back(reader.takeAll<int32_t>(from.tokens));
    pages.push_back(reader.takeAll<PageId>(from.pages));
    ScheduledSequence one;
    one.id = from.id;
    one.tokens = tokens.back(); // moves of a vector keep its elements' places
    one.pages = pages.back();
    one.firstPosition = from.firstPosition;
    one.pageTokens = from.pageTokens;
    one.newTokens = from.newTokens;
    one.sampling = from.sampling;
    one.samples = from.samples != 0;
    (i < head.decodes ? received.decodes : received.prefills).push_back(one);
  }
}

} // namespace llama
