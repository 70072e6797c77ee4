//===- TraceReport.cpp ----------------------------------------------------===//
#include "kiln/TraceReport.h"

#include "Support/Format.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>

#include <set>

namespace kiln::cli {

static constexpr double kMsPerNs = 1e-6;

static std::string msText(int64_t ns) {
  return ns == 0 ? "0" : fmt::format("{:.3f}", double(ns) * kMsPerNs);
}

static llvm::json::Value msJson(int64_t ns) {
  return rounded(double(ns) * kMsPerNs, 9);
}

size_t TraceReport::numberOf(size_t call) const {
  auto isBefore = [&](size_t a, size_t b) {
    const TraceNode &left = tree.nodes()[a], &right = tree.nodes()[b];
    return std::pair(left.interval.startNs, a) <
           std::pair(right.interval.startNs, b);
  };
  return size_t(llvm::lower_bound(tree.calls(), call, isBefore) -
                tree.calls().begin()) +
         1;
}

std::string TraceReport::receiverOf(const TraceFlow &flow) const {
  const size_t node = tree.at(flow.to);
  return node == TraceNode::kNone
             ? ""
             : trace.text(tree.nodes()[node].interval.what).str();
}

std::vector<std::string> TraceReport::notes() const {
  const TraceFaults &faults = trace.faults();
  std::vector<std::string> list;
  auto note = [&](uint64_t count, llvm::StringRef text) {
    if (count > 0)
      list.push_back(fmt::format("{} {}", count, text));
  };
  if (!trace.isOurs())
    list.push_back("Kiln did not write this trace, or its first line is lost");
  if (faults.isCut)
    list.push_back("the file was cut; events in front of the cut were read");
  note(faults.unwritten,
       "events are missing: the file was full or could not be written");
  note(faults.damaged, "events are damaged and left out, the first: " +
                           onOneLine(faults.first));
  note(faults.negative, "durations are below 0 and count as 0");
  note(tree.crossing(),
       "intervals end behind the one that they begin in, and were cut to fit");
  note(faults.unpaired, "ends have no begin");
  note(faults.open, "intervals have no end, and last until the trace ends");
  note(faults.handedOver, "pieces of work were handed over and not taken up");
  note(faults.received, "pieces of work were taken up from an unknown thread");
  note(faults.unknown, "events are of kinds that are not shown");
  return list;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void TraceReport::printHead(llvm::raw_ostream &os) const {
  os << printable(path);
  for (auto [key, lead] : {std::pair{"kiln", "kiln "},
                           {"process", ""},
                           {"pid", "pid "},
                           {"device", ""}})
    if (std::string text = trace.about(key); !text.empty())
      os << ", " << lead << printable(text);
  os << fmt::format("\n{} intervals on {} threads in {} ms\n",
                    trace.intervals().size(), trace.threads().size(),
                    msText(trace.endNs() - trace.startNs()));
}

void TraceReport::printCalls(llvm::raw_ostream &os) const {
  if (sum.calls.empty())
    return;
  std::vector<TraceText> phases; // with the most time first
  for (const PhaseSummary &phase : sum.phases)
    if (phase.inCallsNs > 0 && trace.text(phase.phase) != "call")
      phases.push_back(phase.phase);
  std::vector<std::string> headers{"call", ">count", ">total ms", ">longest ms",
                                   ">own ms"};
  for (TraceText phase : phases)
    headers.push_back((">" + trace.text(phase) + " ms").str());
  Table table(std::vector<llvm::StringRef>(headers.begin(), headers.end()));
  for (const CallSummary &call : sum.calls) {
    int64_t ownNs = 0;
    for (const auto &[phase, ns] : call.phaseNs)
      if (trace.text(phase) == "call")
        ownNs += ns;
    std::vector<std::string> row{
        trace.text(call.name).str(), fmt::to_string(call.count),
        msText(call.totalNs), msText(call.longestNs), msText(ownNs)};
    for (TraceText phase : phases) {
      auto place = call.phaseNs.find(phase);
      row.push_back(place == call.phaseNs.end() ? "" : msText(place->second));
    }
    table.addRow(std::move(row));
  }
  os << "\ncalls, with the time of each phase on their own thread\n";
  table.print(os);
}

void TraceReport::printPhases(llvm::raw_ostream &os) const {
  if (sum.phases.empty())
    return;
  int64_t allNs = 0;
  for (const PhaseSummary &phase : sum.phases)
    allNs += phase.selfNs();
  Table table({"phase", ">count", ">total ms", ">in calls ms", ">elsewhere ms",
               ">share"});
  for (const PhaseSummary &phase : sum.phases)
    table.addRow(
        {trace.text(phase.phase).str(), fmt::to_string(phase.count),
         msText(phase.totalNs), msText(phase.inCallsNs),
         msText(phase.elsewhereNs),
         fmt::format("{:.1f} %", 100 * double(phase.selfNs()) /
                                     double(std::max<int64_t>(allNs, 1)))});
  os << "\nphases, in calls and on threads that work for them, without other "
        "phases inside\n";
  table.print(os);
}

std::string TraceReport::mostOf(size_t call) const {
  constexpr size_t kShownPhases = 3;
  const double allNs = double(tree.nodes()[call].ns());
  std::vector<std::string> shown;
  for (const auto &[phase, ns] : tree.phasesOf(call))
    if (shown.size() < kShownPhases && ns > 0)
      shown.push_back(fmt::format("{} {:.0f} %", trace.text(phase),
                                  100 * double(ns) / allNs));
  return fmt::to_string(fmt::join(shown, ", "));
}

void TraceReport::printLongest(llvm::raw_ostream &os) const {
  if (shownCalls() == 0)
    return;
  Table table(
      {">number", ">at ms", ">ms", "call", "most of it", "thread", "problem"});
  for (size_t call : llvm::ArrayRef(sum.longestCalls).take_front(top)) {
    const TraceNode &node = tree.nodes()[call];
    table.addRow({fmt::to_string(numberOf(call)),
                  msText(node.interval.startNs - trace.startNs()),
                  msText(node.ns()), trace.text(node.interval.name).str(),
                  mostOf(call), title(node.interval.thread),
                  trace.text(node.interval.what).str()});
  }
  os << fmt::format("\nthe longest calls, {} of {}\n", shownCalls(),
                    sum.longestCalls.size());
  table.print(os);
}

/// Intervals shorter than a five-hundredth of the call are summed up.
void TraceReport::printDetail(llvm::raw_ostream &os) const {
  if (!detail)
    return;
  const TraceNode &call = tree.nodes()[*detail];
  const int64_t leastNs = call.ns() / 500;
  size_t shorter = 0;
  Table table({">at ms", ">ms", ">own ms", "interval", "what", "reason"});
  std::vector<size_t> open;
  for (size_t i = *detail; i < call.next; ++i) {
    const TraceNode &node = tree.nodes()[i];
    while (!open.empty() && open.back() <= i)
      open.pop_back();
    if (node.ns() < leastNs)
      ++shorter;
    else
      table.addRow({msText(node.interval.startNs - call.interval.startNs),
                    msText(node.ns()), msText(node.selfNs),
                    std::string(2 * std::min<size_t>(open.size(), 20), ' ') +
                        trace.text(node.interval.name).str(),
                    trace.text(node.interval.what).str(),
                    trace.text(node.interval.reason).str()});
    open.push_back(node.next);
  }
  os << fmt::format("\ncall {}\n", numberOf(*detail));
  table.print(os);
  if (shorter > 0)
    os << fmt::format("{} intervals shorter than {} ms are not shown\n",
                      shorter, msText(leastNs));
  printHandedOver(os);
}

void TraceReport::printHandedOver(llvm::raw_ostream &os) const {
  Table table({">at ms", "work", ">wait ms", "thread", ">ms", "what"});
  const TraceNode &call = tree.nodes()[*detail];
  for (const TraceFlow &flow : trace.flows()) {
    const size_t from = tree.at(flow.from), to = tree.at(flow.to);
    // kNone is behind all nodes.
    if (from < *detail || from >= call.next || to == TraceNode::kNone)
      continue;
    const TraceNode &node = tree.nodes()[to];
    table.addRow({msText(flow.from.ns - call.interval.startNs),
                  trace.text(flow.name).str(),
                  msText(std::max<int64_t>(flow.to.ns - flow.from.ns, 0)),
                  title(flow.to.thread), msText(node.ns()),
                  trace.text(node.interval.what).str()});
  }
  if (table.empty())
    return;
  os << "\nwork that it handed over\n";
  table.print(os);
}

void TraceReport::printThreads(llvm::raw_ostream &os) const {
  if (sum.threads.empty())
    return;
  Table table({"thread", ">id", ">intervals", ">calls", ">busy ms"});
  for (const ThreadSummary &thread : sum.threads)
    table.addRow({title(thread.thread), trace.threads()[thread.thread].tid,
                  fmt::to_string(thread.intervals),
                  fmt::to_string(thread.calls), msText(thread.busyNs)});
  os << "\nthreads\n";
  table.print(os);
}

void TraceReport::printFlows(llvm::raw_ostream &os) const {
  if (sum.flows.empty())
    return;
  Table table(
      {"work", ">count", ">mean wait ms", ">longest ms", "the longest"});
  for (const FlowSummary &flow : sum.flows)
    table.addRow({trace.text(flow.name).str(), fmt::to_string(flow.count),
                  msText(flow.totalNs / int64_t(flow.count)),
                  msText(flow.longestNs), receiverOf(flow.longest)});
  os << "\nwaits in queues, until another thread takes the work up\n";
  table.print(os);
}

void TraceReport::printCounters(llvm::raw_ostream &os) const {
  if (!trace.counters().empty()) {
    Table table({"counter", ">samples", ">last", ">greatest"});
    for (const auto &[name, counter] : trace.counters())
      table.addRow({name, fmt::to_string(counter.samples),
                    fmt::format("{:.10g}", counter.last),
                    fmt::format("{:.10g}", counter.most)});
    os << '\n';
    table.print(os);
  }
  if (trace.instants().empty())
    return;
  Table table({"instant", ">count"});
  for (const auto &[name, count] : trace.instants())
    table.addRow({name, fmt::to_string(count)});
  os << '\n';
  table.print(os);
}

void TraceReport::print(llvm::raw_ostream &os) const {
  printHead(os);
  printCalls(os);
  printPhases(os);
  printLongest(os);
  printDetail(os);
  printThreads(os);
  printFlows(os);
  printCounters(os);
  std::vector<std::string> list = notes();
  if (!list.empty())
    os << '\n';
  for (const std::string &note : list)
    os << "note: " << note << '\n';
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

llvm::json::Array TraceReport::callsJson() const {
  llvm::json::Array list;
  for (const CallSummary &call : sum.calls) {
    llvm::json::Object phases;
    for (const auto &[phase, ns] : call.phaseNs)
      phases[trace.text(phase)] = msJson(ns);
    list.push_back(llvm::json::Object{{"call", trace.text(call.name)},
                                      {"count", call.count},
                                      {"total_ms", msJson(call.totalNs)},
                                      {"longest_ms", msJson(call.longestNs)},
                                      {"phases_ms", std::move(phases)}});
  }
  return list;
}

llvm::json::Object TraceReport::callJson(size_t call) const {
  const TraceNode &node = tree.nodes()[call];
  llvm::json::Object phases;
  for (const auto &[phase, ns] : tree.phasesOf(call))
    phases[trace.text(phase)] = msJson(ns);
  return llvm::json::Object{
      {"number", numberOf(call)},
      {"call", trace.text(node.interval.name)},
      {"what", trace.text(node.interval.what)},
      {"thread", trace.threads()[node.interval.thread].tid},
      {"at_ms", msJson(node.interval.startNs - trace.startNs())},
      {"ms", msJson(node.ns())},
      {"phases_ms", std::move(phases)}};
}

llvm::json::Array TraceReport::longestJson() const {
  llvm::json::Array list;
  for (size_t call : llvm::ArrayRef(sum.longestCalls).take_front(top))
    list.push_back(callJson(call));
  return list;
}

llvm::json::Array TraceReport::threadsJson() const {
  llvm::json::Array list;
  for (const ThreadSummary &thread : sum.threads)
    list.push_back(
        llvm::json::Object{{"name", trace.threads()[thread.thread].name},
                           {"pid", trace.threads()[thread.thread].pid},
                           {"tid", trace.threads()[thread.thread].tid},
                           {"intervals", thread.intervals},
                           {"calls", thread.calls},
                           {"busy_ms", msJson(thread.busyNs)}});
  return list;
}

llvm::json::Array TraceReport::flowsJson() const {
  llvm::json::Array list;
  for (const FlowSummary &flow : sum.flows)
    list.push_back(
        llvm::json::Object{{"work", trace.text(flow.name)},
                           {"count", flow.count},
                           {"total_wait_ms", msJson(flow.totalNs)},
                           {"longest_wait_ms", msJson(flow.longestNs)},
                           {"longest", receiverOf(flow.longest)}});
  return list;
}

llvm::json::Object TraceReport::toJson() const {
  llvm::json::Array phases;
  for (const PhaseSummary &phase : sum.phases)
    phases.push_back(
        llvm::json::Object{{"phase", trace.text(phase.phase)},
                           {"count", phase.count},
                           {"total_ms", msJson(phase.totalNs)},
                           {"in_calls_ms", msJson(phase.inCallsNs)},
                           {"elsewhere_ms", msJson(phase.elsewhereNs)}});
  llvm::json::Object counters, instants;
  for (const auto &[name, counter] : trace.counters())
    counters[name] = llvm::json::Object{{"samples", counter.samples},
                                        {"last", counter.last},
                                        {"greatest", counter.most}};
  for (const auto &[name, count] : trace.instants())
    instants[name] = count;
  llvm::json::Object document{{"file", jsonText(path)},
                              {"kiln", trace.about("kiln")},
                              {"pid", trace.about("pid")},
                              {"device", trace.about("device")},
                              {"unix_ns", trace.about("unix_ns")},
                              {"intervals", trace.intervals().size()},
                              {"ms", msJson(trace.endNs() - trace.startNs())},
                              {"is_cut", trace.faults().isCut},
                              {"damaged", trace.faults().damaged},
                              {"calls", callsJson()},
                              {"phases", std::move(phases)},
                              {"longest", longestJson()},
                              {"threads", threadsJson()},
                              {"waits", flowsJson()},
                              {"counters", std::move(counters)},
                              {"instants", std::move(instants)}};
  llvm::json::Array list;
  for (const std::string &note : notes())
    list.push_back(jsonText(note));
  document["notes"] = std::move(list);
  return document;
}

} // namespace kiln::cli
