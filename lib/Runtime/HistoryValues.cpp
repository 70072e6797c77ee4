//===- HistoryValues.cpp - the lines that values of launches need ---------===//
#include "Runtime/HistoryValues.h"

#include "Call/ProblemLine.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <bit>

namespace kiln {

/// The box of one point.
HistoryValues::Box HistoryValues::boxOf(const Values &values) {
  Box box;
  for (int field : values.schema().dynamicExtents())
    box.push_back({values[field], values[field]});
  return box;
}

HistoryValues::Layer &HistoryValues::layerOf(const Values &values) {
  Values fixed(values.schema(), values.array());
  const llvm::ArrayRef<Field> fields = values.schema().fields();
  for (int i = 0; i < static_cast<int>(fields.size()); ++i)
    if (fields[i].role == FieldRole::DynamicExtent || fields[i].isIncidental())
      fixed.set(i, 0);
  return layers[fixed.text()];
}

bool HistoryValues::covers(const Layer &layer, const Box &box) {
  return llvm::any_of(layer.covered, [&box](const Box &outer) {
    return llvm::all_of(llvm::zip(outer, box), [](const auto &pair) {
      const auto &[out, in] = pair;
      return out.first <= in.first && in.last <= out.last;
    });
  });
}

void HistoryValues::cover(const ProblemSpec &spec) {
  if (spec.ranges.empty())
    return;
  const Values &values = spec.problem.values;
  Box box = boxOf(values);
  const llvm::ArrayRef<int> dynamic = values.schema().dynamicExtents();
  for (const ExtentRange &range : spec.ranges)
    if (const auto *at = llvm::find(dynamic, range.field); at != dynamic.end())
      box[static_cast<size_t>(at - dynamic.begin())] = {range.first,
                                                        range.last};
  if (Layer &layer = layerOf(values); !covers(layer, box))
    layer.covered.push_back(std::move(box));
}

/// The line of \p problem's layer over \p box; empty if its family refuses
/// that.
std::string HistoryValues::rangeLine(const Problem &problem,
                                     const Box &box) const {
  const Schema &schema = problem.values.schema();
  Values last(schema, problem.values.array());
  ProblemLine line;
  for (size_t i = 0; i < box.size(); ++i) {
    const int field = schema.dynamicExtents()[i];
    last.set(field, box[i].last);
    if (box[i].first < box[i].last)
      line.ranges.push_back(
          {schema.fields()[field].key.str(), box[i].first, box[i].last});
  }
  line.problem = last.text();
  auto spec = line.read(families);
  if (spec)
    return line.text();
  llvm::consumeError(spec.takeError());
  return "";
}

std::string HistoryValues::lineOf(const Problem &problem) {
  Layer &layer = layerOf(problem.values);
  const Box point = boxOf(problem.values);
  if (covers(layer, point))
    return "";
  if (layer.seen.empty())
    layer.seen = point;
  for (auto [seen, value] : llvm::zip(layer.seen, point)) {
    seen.first = std::min(seen.first, value.first);
    seen.last = std::max(seen.last, value.last);
  }
  if (layer.single >= kMostSingle) {
    Box rounded = layer.seen;
    for (Bounds &bounds : rounded)
      if (bounds.first < bounds.last)
        bounds = {int64_t(std::bit_floor(static_cast<uint64_t>(bounds.first))),
                  int64_t(std::bit_ceil(static_cast<uint64_t>(bounds.last)))};
    // Rounded up, a value may be beyond the largest of its family.
    for (const Box *box : {&rounded, &layer.seen})
      if (std::string line = rangeLine(problem, *box); !line.empty()) {
        layer.covered.push_back(*box);
        return line;
      }
  }
  ++layer.single;
  layer.covered.push_back(point);
  return problem.text();
}

} // namespace kiln
