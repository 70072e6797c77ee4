//===- TraceTree.cpp ------------------------------------------------------===//
//
// Intervals of one thread nest. Sorted by start, the longer one first, each
// follows those that enclose it, so a stack of open intervals finds its parent.
// An interval is written when it ends. So where two are equal, the later one of
// the file encloses the other one.
//
//===----------------------------------------------------------------------===//
#include "trace/TraceTree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace kiln::cli {

/// The places of \p intervals in the order of a walk through their trees.
static std::vector<size_t> walkOf(llvm::ArrayRef<TraceInterval> intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TraceInterval &left = intervals[a], &right = intervals[b];
    return std::tuple(left.thread, left.startNs, right.endNs, b) <
           std::tuple(right.thread, right.startNs, left.endNs, a);
  });
  return order;
}

TraceTree::TraceTree(const TraceFile &trace)
    : file(trace), firstOf(trace.threads().size() + 1) {
  llvm::ArrayRef<TraceInterval> intervals = trace.intervals();
  std::vector<std::pair<size_t, size_t>> open; // node, place in the file
  auto closeLast = [&] {
    all[open.back().first].next = all.size();
    open.pop_back();
  };
  // An empty interval at the end of one that was written later is inside.
  auto isBehind = [&](const TraceInterval &interval, size_t place) {
    const TraceInterval &last = all[open.back().first].interval;
    const bool isLastMoment =
        interval.startNs == last.endNs && interval.endNs == last.endNs;
    return last.thread != interval.thread ||
           (last.endNs <= interval.startNs &&
            !(isLastMoment && place < open.back().second));
  };
  all.reserve(intervals.size());
  for (size_t place : walkOf(intervals)) {
    TraceNode node{intervals[place]};
    while (!open.empty() && isBehind(node.interval, place))
      closeLast();
    if (open.empty()) {
      outermost.push_back(all.size());
    } else {
      node.parent = open.back().first;
      TraceNode &parent = all[node.parent];
      cut += node.interval.endNs > parent.interval.endNs;
      node.interval.endNs =
          std::min(node.interval.endNs, parent.interval.endNs);
      parent.selfNs -= node.ns();
      node.call = parent.call;
    }
    node.selfNs = node.ns();
    if (trace.text(node.interval.phase) == "call") {
      node.call = all.size();
      allCalls.push_back(all.size());
    }
    open.push_back({all.size(), place});
    all.push_back(node);
  }
  while (!open.empty())
    closeLast();
  std::stable_sort(allCalls.begin(), allCalls.end(), [&](size_t a, size_t b) {
    return all[a].interval.startNs < all[b].interval.startNs;
  });
  for (uint32_t thread = 0; thread < firstOf.size(); ++thread)
    firstOf[thread] = static_cast<size_t>(
        std::partition_point(all.begin(), all.end(),
                             [&](const TraceNode &node) {
                               return node.interval.thread < thread;
                             }) -
        all.begin());
}

bool TraceTree::isCall(size_t node) const { return all[node].call == node; }

size_t TraceTree::at(TraceMoment moment) const {
  auto begin = all.begin() + std::ptrdiff_t(firstOf[moment.thread]),
       end = all.begin() + std::ptrdiff_t(firstOf[moment.thread + 1]);
  auto behind = std::partition_point(begin, end, [&](const TraceNode &node) {
    return node.interval.startNs <= moment.ns;
  });
  if (behind == begin)
    return TraceNode::kNone;
  auto node = static_cast<size_t>(behind - all.begin()) - 1;
  while (node != TraceNode::kNone && all[node].interval.endNs < moment.ns)
    node = all[node].parent;
  return node;
}

std::vector<std::pair<TraceText, int64_t>>
TraceTree::phasesOf(size_t node) const {
  std::map<TraceText, int64_t> times;
  for (size_t i = node; i < all[node].next; ++i)
    times[all[i].interval.phase] += all[i].selfNs;
  std::vector<std::pair<TraceText, int64_t>> phases(times.begin(), times.end());
  std::stable_sort(
      phases.begin(), phases.end(),
      [](const auto &a, const auto &b) { return a.second > b.second; });
  return phases;
}

} // namespace kiln::cli
