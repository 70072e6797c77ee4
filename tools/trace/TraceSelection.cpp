//===- TraceSelection.cpp -------------------------------------------------===//
#include "trace/TraceSelection.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <set>

namespace kiln::cli {

TraceSelection TraceSelection::all(const TraceTree &tree) {
  TraceSelection selection;
  selection.roots = tree.roots().vec();
  return selection;
}

TraceSelection TraceSelection::ofCalls(const TraceTree &tree,
                                       std::vector<size_t> calls) {
  TraceSelection own;
  // The outermost ones: those inside of them come right behind.
  auto keep = [&](std::vector<size_t> nodes) {
    llvm::sort(nodes);
    own.roots.clear();
    for (size_t node : nodes)
      if (!own.contains(tree, node))
        own.roots.push_back(node);
  };
  keep(calls);
  for (const TraceFlow &flow : tree.trace().flows()) {
    const size_t from = tree.at(flow.from), to = tree.at(flow.to);
    if (from != TraceNode::kNone && to != TraceNode::kNone &&
        own.contains(tree, from))
      calls.push_back(to);
  }
  keep(calls);
  return own;
}

llvm::Expected<TraceSelection>
TraceSelection::onThread(const TraceTree &tree, llvm::StringRef name) const {
  llvm::ArrayRef<TraceThread> threads = tree.trace().threads();
  auto isMeant = [&](const TraceThread &thread) {
    return name == thread.tid || name == thread.title();
  };
  if (llvm::none_of(threads, isMeant)) {
    std::set<std::string> known;
    for (const TraceThread &thread : threads)
      known.insert(fmt::format("{} ({})", thread.title(), thread.tid));
    return makeError(ErrorCode::InvalidArgument,
                     "--thread={}: no such thread, there are {}", name,
                     fmt::join(known, ", "));
  }
  TraceSelection selection;
  llvm::copy_if(roots, std::back_inserter(selection.roots), [&](size_t root) {
    return isMeant(threads[tree.nodes()[root].interval.thread]);
  });
  return selection;
}

bool TraceSelection::contains(const TraceTree &tree, size_t node) const {
  auto behind = llvm::upper_bound(roots, node);
  return behind != roots.begin() && node < tree.nodes()[behind[-1]].next;
}

llvm::Expected<std::vector<size_t>> callsOf(const TraceTree &tree,
                                            llvm::StringRef text) {
  llvm::ArrayRef<size_t> calls = tree.calls();
  if (size_t number = 0; !text.getAsInteger(10, number)) {
    if (number >= 1 && number <= calls.size())
      return std::vector<size_t>{calls[number - 1]};
    return makeError(ErrorCode::InvalidArgument,
                     "--call={}: the trace has {} calls", text, calls.size());
  }
  std::vector<size_t> found;
  std::set<std::string> known;
  for (size_t call : calls) {
    llvm::StringRef name = tree.trace().text(tree.nodes()[call].interval.name);
    known.insert(name.str());
    if (name == text)
      found.push_back(call);
  }
  if (found.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "--call={}: no call is called so, there are {}", text,
                     known.empty() ? "no calls"
                                   : fmt::to_string(fmt::join(known, ", ")));
  return found;
}

} // namespace kiln::cli
