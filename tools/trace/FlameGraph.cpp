//===- FlameGraph.cpp -----------------------------------------------------===//
#include "trace/FlameGraph.h"

#include "Support/Format.h"
#include "Support/Printable.h"
#include "cli/Html.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace kiln::cli {

namespace {

// Pixels.
constexpr double kWidth = 1200, kMargin = 10, kRow = 18, kHead = 58,
                 kLetter = 6.7, kLeast = 0.1;

struct PhaseColour {
  llvm::StringLiteral phase, colour;
};

/// Light colours, on which black text is readable.
constexpr PhaseColour kColours[] = {
    {"call", "#9ecae1"},       {"canonicalise", "#c7e9c0"},
    {"lookup", "#a1d99b"},     {"plan", "#74c476"},
    {"cache", "#e5f5e0"},      {"compile", "#fdae6b"},
    {"load", "#fdd0a2"},       {"trial", "#bcbddc"},
    {"wait", "#fb9a99"},       {"arena", "#e7cb94"},
    {"launch", "#9edae5"},     {"range", "#d9d9d9"},
    {"step", "#bdbdbd"},       {"layer", "#d0d0d0"},
    {"background", "#dadaeb"},
};
constexpr llvm::StringLiteral kThreadColour = "#eeeeee";
/// For phases that Kiln does not have.
constexpr llvm::StringLiteral kOtherColours[] = {"#ffffb3", "#ccebc5",
                                                 "#fccde5", "#b3e2cd"};

llvm::StringRef colourOf(llvm::StringRef phase) {
  if (phase.empty())
    return kThreadColour;
  for (const PhaseColour &known : kColours)
    if (known.phase == phase)
      return known.colour;
  size_t sum = 0;
  for (unsigned char c : phase)
    sum = sum * 31 + c;
  return kOtherColours[sum % std::size(kOtherColours)];
}

/// The beginning of \p text that fits \p width, made printable first so that
/// no escape is cut.
std::string textIn(double width, llvm::StringRef text) {
  std::string shown = printable(text);
  const auto room = static_cast<size_t>(std::max(0.0, (width - 6) / kLetter));
  size_t letters = 0, cut = 0;
  constexpr size_t kDots = 2;
  for (size_t i = 0; i < shown.size(); ++i) {
    if ((static_cast<unsigned char>(shown[i]) & 0xc0) == 0x80)
      continue; // inside of a letter
    if (letters++ + kDots == room)
      cut = i;
  }
  if (letters <= room)
    return markupText(shown);
  return room <= kDots ? "" : markupText(shown.substr(0, cut) + "..");
}

/// Prints one graph.
class FlamePrinter {
public:
  FlamePrinter(const TraceStacks &stacks, llvm::raw_ostream &os)
      : frames(stacks.frames()), os(os),
        height(kHead + kRow * double(stacks.deepest() + 1) + kMargin) {}

  void print(llvm::StringRef title);

private:
  void printLegend();
  void printFrame(const StackFrame &frame, double x);
  double widthOf(const StackFrame &frame) const {
    return (kWidth - 2 * kMargin) * double(frame.totalNs) /
           double(std::max<int64_t>(frames[0].totalNs, 1));
  }

  llvm::ArrayRef<StackFrame> frames;
  llvm::raw_ostream &os;
  double height;
};

} // namespace

void FlamePrinter::printLegend() {
  std::set<std::string> others;
  for (const StackFrame &frame : frames)
    if (!frame.phase.empty())
      others.insert(frame.phase);
  std::vector<std::string> phases;
  for (const PhaseColour &known : kColours)
    if (others.erase(known.phase.str()))
      phases.push_back(known.phase.str());
  llvm::append_range(phases, others);
  double x = kMargin;
  for (const std::string &phase : phases) {
    os << fmt::format("<rect x=\"{:.1f}\" y=\"32\" width=\"12\" height=\"12\" "
                      "fill=\"{}\"/>\n"
                      "<text x=\"{:.1f}\" y=\"42\">{}</text>\n",
                      x, colourOf(phase), x + 16, markupText(phase));
    x += 16 + kLetter * double(phase.size() + 2);
    if (x > kWidth - 100)
      break; // many categories of a foreign trace
  }
}

void FlamePrinter::printFrame(const StackFrame &frame, double x) {
  const double width = widthOf(frame), y = kHead + kRow * double(frame.depth);
  const double share = 100 * double(frame.totalNs) /
                       double(std::max<int64_t>(frames[0].totalNs, 1));
  const std::string phase = frame.phase.empty() || frame.phase == frame.text
                                ? ""
                                : fmt::format(" [{}]", markupText(frame.phase));
  const std::string times =
      frame.count == 0 ? ""
                       : fmt::format(", {:.3f} ms of its own, count {}",
                                     double(frame.selfNs) * 1e-6, frame.count);
  os << fmt::format("<g><title>{}{}: {:.3f} ms, {:.2f} %{}</title><rect "
                    "x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" "
                    "height=\"{:.0f}\" fill=\"{}\"/>",
                    markupText(frame.text), phase, double(frame.totalNs) * 1e-6,
                    share, times, x, y, width, kRow - 1, colourOf(frame.phase));
  std::string text = textIn(width, frame.text);
  if (!text.empty())
    os << fmt::format("<text x=\"{:.2f}\" y=\"{:.0f}\">{}</text>", x + 3,
                      y + 13, text);
  os << "</g>\n";
}

void FlamePrinter::print(llvm::StringRef title) {
  os << fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"monospace\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"20\" font-size=\"14\">{3}</text>\n",
      kWidth, height, kMargin, markupText(title));
  printLegend();
  // The frames to print, the next one last, with their left ends.
  std::vector<std::pair<size_t, double>> todo{{0, kMargin}};
  while (!todo.empty()) {
    auto [place, x] = todo.back();
    todo.pop_back();
    const StackFrame &frame = frames[place];
    if (widthOf(frame) < kLeast)
      continue;
    printFrame(frame, x);
    const size_t first = todo.size();
    for (size_t inside : frame.inside) {
      todo.push_back({inside, x});
      x += widthOf(frames[inside]);
    }
    std::reverse(todo.begin() + std::ptrdiff_t(first), todo.end());
  }
  os << "</svg>\n";
}

void printFlameGraph(const TraceStacks &stacks, llvm::StringRef title,
                     llvm::raw_ostream &os) {
  FlamePrinter(stacks, os).print(title);
}

} // namespace kiln::cli
