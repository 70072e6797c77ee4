//===- Trace.cpp - kiln trace: where the time of calls went ---------------===//
#include "cli/Console.h"
#include "cli/Report.h"
#include "kiln/Commands.h"
#include "kiln/TraceReport.h"
#include "trace/FlameGraph.h"
#include "trace/TraceStacks.h"

#include <optional>

namespace kiln::cli {

namespace {

/// The part of a trace that the options name.
struct ChosenPart {
  TraceSelection selection;
  std::optional<size_t> call; ///< of --call with a number
};

} // namespace

static llvm::Expected<ChosenPart> choosePart(const ParsedOptions &options,
                                             const TraceTree &tree) {
  ChosenPart part{TraceSelection::all(tree), std::nullopt};
  if (auto text = options.value("--call")) {
    auto calls = callsOf(tree, *text);
    if (!calls)
      return calls.takeError();
    if (text->find_first_not_of("0123456789") == std::string::npos)
      part.call = calls->front();
    part.selection = TraceSelection::ofCalls(tree, std::move(*calls));
  }
  if (auto name = options.value("--thread")) {
    auto onThread = part.selection.onThread(tree, *name);
    if (!onThread)
      return onThread.takeError();
    part.selection = std::move(*onThread);
  }
  return part;
}

static llvm::Error writeStacks(const ParsedOptions &options,
                               const std::string &path, const TraceTree &tree,
                               const TraceSelection &selection) {
  auto folded = options.value("--folded"), svg = options.value("--svg");
  if (!folded && !svg)
    return llvm::Error::success();
  TraceStacks stacks(tree, selection.subtrees(), options.has("--what"));
  std::string text;
  llvm::raw_string_ostream os(text);
  if (folded) {
    stacks.printFolded(os);
    if (llvm::Error error = writeFile(*folded, os.str()))
      return error;
    text.clear();
  }
  if (svg) {
    printFlameGraph(stacks, path, os);
    if (llvm::Error error = writeFile(*svg, os.str()))
      return error;
  }
  return llvm::Error::success();
}

/// Whether a file is to be written to stdout, which the report would spoil.
static bool takesStdout(const ParsedOptions &options) {
  for (const char *name : {"--folded", "--svg", "--close"})
    if (options.value(name) == "-")
      return true;
  return false;
}

static llvm::Expected<int> runTrace(const ParsedOptions &options) {
  if (options.operands().size() != 1)
    return makeError(ErrorCode::InvalidArgument,
                     "trace: give one file, as KILN_TRACE named it");
  const std::string &path = options.operands().front();
  auto top = options.number("--top", 10);
  if (!top)
    return top.takeError();
  auto trace = TraceFile::read(path);
  if (!trace)
    return trace.takeError();
  TraceTree tree(*trace);
  auto part = choosePart(options, tree);
  if (!part)
    return part.takeError();
  if (llvm::Error error = writeStacks(options, path, tree, part->selection))
    return error;
  if (auto closed = options.value("--close")) {
    auto text = TraceFile::close(path);
    if (!text)
      return text.takeError();
    if (llvm::Error error = writeFile(*closed, *text))
      return error;
  }
  if (takesStdout(options))
    return kExitDone;
  TraceReport report(path, tree, part->selection, *top);
  report.detail = part->call;
  return emit(report, options.wantsJson());
}

static constexpr OptionSpec kTraceOptions[] = {
    {"--folded", "OUT",
     "write stacks with their own time in us, one a line, as flame graph tools "
     "read them; - is stdout"},
    {"--svg", "OUT", "write a flame graph; - is stdout"},
    {"--what", nullptr,
     "--folded, --svg: problems, kernels and configs are parts of the frames"},
    {"--close", "OUT",
     "write a valid document with the events of a trace that was cut; OUT may "
     "be the trace itself"},
    {"--thread", "NAME|TID", "only this thread"},
    {"--call", "N|NAME",
     "only the call with this number, interval by interval, or the calls of "
     "this function, with the work that they handed over"},
    {"--top", "N", "longest calls to show, default 10"},
};

const CommandSpec kTraceCommand = {
    "trace",
    "FILE",
    "show where the time of calls went, from a file that KILN_TRACE named",
    "An engine writes the trace of each call where the environment has "
    "KILN_TRACE=FILE. The tables have the calls by phase, the longest calls, "
    "threads, and the time that work waited for another thread.\nA file that "
    "was cut, because the program or the machine died, is read up to the "
    "cut. Traces of other programs are read as well, if they are Chrome "
    "traces: their categories count as phases.\n  kiln trace trace.json --svg "
    "flame.svg",
    kTraceOptions,
    runTrace,
};

} // namespace kiln::cli
