//===- View.h - a pointer and a count -------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_VIEW_H
#define KILN_EXAMPLES_LLAMA_VIEW_H

#include <cstdint>
#include <vector>

namespace llama {

/// Elements of an array that another object owns (std::span is C++20).
template <class T> class View {
public:
  View() = default;
  View(const T *data, int64_t count) : elements(data), count(count) {}
  View(const std::vector<T> &values)
      : elements(values.data()), count(static_cast<int64_t>(values.size())) {}

  const T *data() const { return elements; }
  int64_t size() const { return count; }
  const T *begin() const { return elements; }
  const T *end() const { return elements + count; }
  const T &operator[](int64_t index) const { return elements[index]; }

private:
  const T *elements = nullptr;
  int64_t count = 0;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_VIEW_H
