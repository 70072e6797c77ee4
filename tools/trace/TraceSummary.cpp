//===- TraceSummary.cpp ---------------------------------------------------===//
#include "trace/TraceSummary.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>

namespace kiln::cli {

namespace {

/// Tells which nodes of a walk lie in none of their own kind.
class Outermost {
public:
  bool enter(size_t node, size_t next, TraceText kind) {
    for (; !open.empty() && open.back().first <= node; open.pop_back())
      --counts[open.back().second];
    open.push_back({next, kind});
    return counts[kind]++ == 0;
  }

private:
  std::vector<std::pair<size_t, TraceText>> open;
  std::map<TraceText, size_t> counts;
};

/// The entry of \p list whose \p member is \p key; a new one if there is none.
template <class Entry, class Key>
Entry &entryOf(std::vector<Entry> &list, Key Entry::*member, Key key) {
  auto place = llvm::find_if(
      list, [&](const Entry &entry) { return entry.*member == key; });
  if (place != list.end())
    return *place;
  list.emplace_back().*member = key;
  return list.back();
}

} // namespace

void TraceSummary::addSubtree(const TraceTree &tree, size_t root) {
  llvm::ArrayRef<TraceNode> nodes = tree.nodes();
  ThreadSummary &thread =
      entryOf(threads, &ThreadSummary::thread, nodes[root].interval.thread);
  thread.busyNs += nodes[root].ns();
  Outermost ofPhase, ofName;
  for (size_t i = root; i < nodes[root].next; ++i) {
    const TraceNode &node = nodes[i];
    PhaseSummary &phase =
        entryOf(phases, &PhaseSummary::phase, node.interval.phase);
    ++thread.intervals;
    ++phase.count;
    if (ofPhase.enter(i, node.next, node.interval.phase))
      phase.totalNs += node.ns();
    (node.call == TraceNode::kNone ? phase.elsewhereNs : phase.inCallsNs) +=
        node.selfNs;
    if (node.call == TraceNode::kNone)
      continue;
    CallSummary &call =
        entryOf(calls, &CallSummary::name, nodes[node.call].interval.name);
    call.phaseNs[node.interval.phase] += node.selfNs;
    if (node.call != i)
      continue;
    ++thread.calls;
    ++call.count;
    call.longestNs = std::max(call.longestNs, node.ns());
    if (ofName.enter(i, node.next, node.interval.name))
      call.totalNs += node.ns();
    longestCalls.push_back(i);
  }
}

void TraceSummary::addFlows(const TraceTree &tree,
                            const TraceSelection &selection) {
  auto isMeant = [&](TraceMoment moment) {
    const size_t node = tree.at(moment);
    return node != TraceNode::kNone && selection.contains(tree, node);
  };
  for (const TraceFlow &flow : tree.trace().flows()) {
    if (!isMeant(flow.from) && !isMeant(flow.to))
      continue;
    FlowSummary &sum = entryOf(flows, &FlowSummary::name, flow.name);
    const int64_t ns = std::max<int64_t>(flow.to.ns - flow.from.ns, 0);
    if (sum.count++ == 0 || ns > sum.longestNs) {
      sum.longestNs = ns;
      sum.longest = flow;
    }
    sum.totalNs += ns;
  }
}

TraceSummary::TraceSummary(const TraceTree &tree,
                           const TraceSelection &selection) {
  for (size_t root : selection.subtrees())
    addSubtree(tree, root);
  addFlows(tree, selection);
  auto sort = [](auto &list, auto nsOf) {
    std::stable_sort(
        list.begin(), list.end(),
        [&](const auto &a, const auto &b) { return nsOf(a) > nsOf(b); });
  };
  sort(calls, [](const CallSummary &call) { return call.totalNs; });
  sort(phases, [](const PhaseSummary &phase) { return phase.selfNs(); });
  sort(threads, [](const ThreadSummary &thread) { return thread.busyNs; });
  sort(flows, [](const FlowSummary &flow) { return flow.totalNs; });
  sort(longestCalls, [&](size_t call) { return tree.nodes()[call].ns(); });
}

} // namespace kiln::cli
