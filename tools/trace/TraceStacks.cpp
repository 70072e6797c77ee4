//===- TraceStacks.cpp ----------------------------------------------------===//
#include "trace/TraceStacks.h"

#include "Support/Format.h"
#include "Support/Printable.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace kiln::cli {

static constexpr size_t kMostStackDepth = 256;

namespace {

/// Finds the frame of an interval below another frame, or makes it.
class FrameTable {
public:
  FrameTable(const TraceFile &trace, std::vector<StackFrame> &frames)
      : trace(trace), frames(frames) {}

  size_t thread(uint32_t thread) {
    auto [place, isNew] = threads.try_emplace(thread, 0);
    if (isNew)
      place->second = find(0, trace.threads()[thread].title(), "");
    return place->second;
  }

  size_t interval(size_t parent, const TraceInterval &interval,
                  bool tellsWhat) {
    const TraceText what = tellsWhat ? interval.what : 0;
    auto [place, isNew] =
        known.try_emplace({parent, interval.name, interval.phase, what}, 0);
    if (isNew) {
      std::string text = trace.text(interval.name).str();
      if (what != 0)
        text += (": " + trace.text(what)).str();
      place->second = find(parent, std::move(text), trace.text(interval.phase));
    }
    return place->second;
  }

private:
  /// Different threads and problems may have equal texts, which share a frame.
  size_t find(size_t parent, std::string text, llvm::StringRef phase) {
    auto [place, isNew] =
        byText.try_emplace({parent, text, phase.str()}, frames.size());
    if (isNew) {
      frames[parent].inside.push_back(frames.size());
      frames.push_back({.text = std::move(text),
                        .phase = phase.str(),
                        .parent = parent,
                        .depth = frames[parent].depth + 1});
    }
    return place->second;
  }

  const TraceFile &trace;
  std::vector<StackFrame> &frames;
  std::map<uint32_t, size_t> threads;
  std::map<std::tuple<size_t, TraceText, TraceText, TraceText>, size_t> known;
  std::map<std::tuple<size_t, std::string, std::string>, size_t> byText;
};

} // namespace

TraceStacks::TraceStacks(const TraceTree &tree, llvm::ArrayRef<size_t> subtrees,
                         bool tellsWhat)
    : all(1) {
  all[0].text = "all";
  FrameTable table(tree.trace(), all);
  llvm::ArrayRef<TraceNode> nodes = tree.nodes();
  std::vector<size_t> frameOf; // of each node of the subtree
  for (size_t root : subtrees) {
    frameOf.assign(nodes[root].next - root, 0);
    const size_t thread = table.thread(nodes[root].interval.thread);
    for (size_t i = root; i < nodes[root].next; ++i) {
      const TraceNode &node = nodes[i];
      const size_t above = i == root ? thread : frameOf[node.parent - root];
      const bool isDeep = all[above].depth == kMostStackDepth;
      const size_t frame =
          isDeep ? above : table.interval(above, node.interval, tellsWhat);
      frameOf[i - root] = frame;
      all[frame].selfNs += node.selfNs;
      all[frame].count += !isDeep;
    }
  }
  // A frame is in front of those inside of it.
  for (size_t i = all.size(); i-- > 0;) {
    StackFrame &frame = all[i];
    frame.totalNs += frame.selfNs;
    mostDepth = std::max(mostDepth, frame.depth);
    if (i > 0)
      all[frame.parent].totalNs += frame.totalNs;
  }
  sortInside();
}

void TraceStacks::sortInside() {
  for (StackFrame &frame : all)
    std::sort(frame.inside.begin(), frame.inside.end(),
              [&](size_t a, size_t b) {
                return std::tie(all[a].text, all[a].phase) <
                       std::tie(all[b].text, all[b].phase);
              });
}

/// \p text without the sign that separates frames, on one line.
static std::string foldedText(llvm::StringRef text) {
  std::string shown = printable(text);
  std::replace(shown.begin(), shown.end(), ';', ',');
  return shown;
}

void TraceStacks::printFolded(llvm::raw_ostream &os) const {
  // The frames to print, the next one last, with the text of their callers.
  std::vector<std::pair<size_t, std::string>> todo{{0, ""}};
  while (!todo.empty()) {
    auto [place, callers] = std::move(todo.back());
    todo.pop_back();
    const StackFrame &frame = all[place];
    const std::string stack = callers + foldedText(frame.text);
    if (int64_t us = (frame.selfNs + 500) / 1000; place > 0 && us > 0)
      os << fmt::format("{} {}\n", stack, us);
    const std::string lead = place == 0 ? "" : stack + ';';
    for (size_t i = frame.inside.size(); i-- > 0;)
      todo.push_back({frame.inside[i], lead});
  }
}

} // namespace kiln::cli
