// Nesting, stacks and flame graphs of traces.
#include "Support/Error.h"
#include "Support/TemporaryFolder.h"
#include "Tools/TraceSamples.h"
#include "Tools/XmlCheck.h"
#include "trace/FlameGraph.h"
#include "trace/TraceStacks.h"
#include "trace/TraceSummary.h"

#include <doctest/doctest.h>

#include <memory>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

namespace {

/// A trace with its tree.
struct Nested {
  explicit Nested(const std::vector<std::string> &events)
      : trace(read(events)), tree(trace) {}

  static TraceFile read(const std::vector<std::string> &events) {
    TemporaryFolder folder;
    writeBytes(folder / "t.json", traceOf(events));
    return llvm::cantFail(TraceFile::read(folder / "t.json"));
  }

  /// The first node with this name.
  const TraceNode &node(llvm::StringRef name) const {
    for (const TraceNode &node : tree.nodes())
      if (trace.text(node.interval.name) == name)
        return node;
    FAIL("no such node");
    return tree.nodes()[0];
  }

  std::string folded(const TraceSelection &selection, bool what = false) const {
    std::string text;
    llvm::raw_string_ostream os(text);
    TraceStacks(tree, selection.subtrees(), what).printFolded(os);
    return os.str();
  }
  std::string folded() const { return folded(TraceSelection::all(tree)); }

  std::string svg() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    printFlameGraph(
        TraceStacks(tree, TraceSelection::all(tree).subtrees(), true), "a<b",
        os);
    return os.str();
  }

  TraceFile trace;
  TraceTree tree;
};

} // namespace

TEST_CASE("intervals nest, and own times add up") {
  Nested sample(sampleEvents());
  CHECK(sample.node("kiln_gemm").ns() == 4000000);
  CHECK(sample.node("kiln_gemm").selfNs == 100000);
  CHECK(sample.node("lookup").selfNs == 3900000 - 3500000 - 100000 - 40500);
  CHECK(sample.node("step").selfNs == 4200000 - 4000000 - 12250);
  CHECK(sample.tree.calls().size() == 2);
  CHECK(sample.tree.roots().size() == 2);
  CHECK(sample.tree.crossing() == 0);
  int64_t ownNs = 0, rootNs = 0;
  for (const TraceNode &node : sample.tree.nodes())
    ownNs += node.selfNs;
  for (size_t root : sample.tree.roots())
    rootNs += sample.tree.nodes()[root].ns();
  CHECK(ownNs == rootNs);
  TraceMoment moment = sample.trace.flows()[0].from;
  CHECK(sample.trace.text(
            sample.tree.nodes()[sample.tree.at(moment)].interval.name) ==
        "lookup");
  moment.ns = 0;
  CHECK(sample.tree.at(moment) == TraceNode::kNone);
}

TEST_CASE("equal and empty intervals belong to those written later") {
  Nested equal({intervalOf("inner", "plan", "5", "2"),
                intervalOf("last", "plan", "7", "0"),
                intervalOf("outer", "call", "5", "2"),
                intervalOf("next", "call", "8", "1")});
  CHECK(equal.tree.roots().size() == 2);
  CHECK(equal.node("inner").parent == 0);
  CHECK(equal.node("last").parent == 0);
  CHECK(equal.node("outer").selfNs == 0);
  CHECK(equal.node("next").selfNs == 1000);
}

TEST_CASE("an interval that crosses another one is cut to fit") {
  Nested crossing({intervalOf("a", "call", "0", "10"),
                   intervalOf("b", "plan", "5", "10"),
                   intervalOf("c", "plan", "6", "20")});
  CHECK(crossing.tree.crossing() == 2);
  CHECK(crossing.node("a").selfNs == 5000);
  CHECK(crossing.node("b").ns() == 5000);
  CHECK(crossing.node("b").selfNs == 1000);
  CHECK(crossing.node("c").ns() == 4000);
}

TEST_CASE("stacks are folded") {
  Nested sample(sampleEvents());
  CHECK(sample.folded() == "main;step 188\n"
                           "main;step;kiln_gemm 112\n"
                           "main;step;kiln_gemm;lookup 260\n"
                           "main;step;kiln_gemm;lookup;load 100\n"
                           "main;step;kiln_gemm;lookup;plan 41\n"
                           "main;step;kiln_gemm;lookup;wait 3500\n"
                           "pool;compile 3000\n");
  auto calls = llvm::cantFail(callsOf(sample.tree, "1"));
  TraceSelection first = TraceSelection::ofCalls(sample.tree, calls);
  CHECK(sample.folded(first, true) ==
        "main;kiln_gemm: gemm m=16 n=4096 100\n"
        "main;kiln_gemm: gemm m=16 n=4096;lookup 260\n"
        "main;kiln_gemm: gemm m=16 n=4096;lookup;load 100\n"
        "main;kiln_gemm: gemm m=16 n=4096;lookup;plan: gemm m=16 41\n"
        "main;kiln_gemm: gemm m=16 n=4096;lookup;wait 3500\n"
        "pool;compile: kiln_gemm_a 3000\n");
  auto pool = llvm::cantFail(first.onThread(sample.tree, "78"));
  CHECK(sample.folded(pool) == "pool;compile 3000\n");
  CHECK(summarize(first.onThread(sample.tree, "79").takeError()).message ==
        "--thread=79: no such thread, there are main (77), pool (78)");
  CHECK(summarize(callsOf(sample.tree, "3").takeError()).message ==
        "--call=3: the trace has 2 calls");
  CHECK(summarize(callsOf(sample.tree, "kiln_x").takeError()).message ==
        "--call=kiln_x: no call is called so, there are kiln_gemm");
  Nested odd({intervalOf("a;b\\nc", "call", "0", "10")});
  CHECK(odd.folded() == "thread 77;a,b\\x0ac 10\n");
}

TEST_CASE("depths beyond a limit count for the limit's frame") {
  std::vector<std::string> events;
  constexpr int kDepth = 1000;
  for (int i = 0; i < kDepth; ++i)
    events.push_back(intervalOf("f", "call", std::to_string(kDepth - i),
                                std::to_string(2 * i + 1)));
  Nested deep(events);
  TraceStacks stacks(deep.tree, TraceSelection::all(deep.tree).subtrees(),
                     false);
  CHECK(stacks.deepest() == 256);
  CHECK(stacks.frames()[0].totalNs == (2 * kDepth - 1) * 1000);
  CHECK(isWellFormed(deep.svg()));
}

TEST_CASE("a flame graph is XML, the same each time, with texts that fit") {
  Nested sample(sampleEvents());
  const std::string svg = sample.svg();
  CHECK(svg == Nested(sampleEvents()).svg());
  CHECK(isWellFormed(svg));
  CHECK(svg.find("a&lt;b") != std::string::npos);
  CHECK(svg.find("<title>compile: kiln_gemm_a [compile]: 3.000 ms, 41.67 %, "
                 "3.000 ms of its own, count 1</title>") != std::string::npos);
  CHECK(svg.find("<script") == std::string::npos);

  Nested odd(
      {intervalOf("<a>&\\\"x\\u0001\\uffff\xe2\x82\xac", "a'<", "0", "1"),
       intervalOf("b", "c", "2", "99")});
  CHECK(isWellFormed(odd.svg()));
  CHECK(odd.svg().find("&lt;a&gt;&amp;&quot;x\\x01?\xe2\x82\xac") !=
        std::string::npos);
  CHECK_FALSE(isWellFormed("<a><b></a></b>"));
  CHECK_FALSE(isWellFormed("<a>&b</a>"));

  // A text is cut between letters.
  std::string euros;
  for (int i = 0; i < 400; ++i)
    euros += "\xe2\x82\xac";
  Nested wide({intervalOf(euros, "call", "0", "50"),
               intervalOf("b", "call", "50", "50")});
  std::string text = wide.svg();
  size_t at = text.find("..</text>");
  REQUIRE(at != std::string::npos);
  CHECK(text.substr(at - 3, 3) == "\xe2\x82\xac");
  CHECK(isWellFormed(Nested({}).svg()));
}

TEST_CASE("a summary has calls by phase, and waits between threads") {
  Nested sample(sampleEvents());
  TraceSummary sum(sample.tree, TraceSelection::all(sample.tree));
  REQUIRE(sum.calls.size() == 1);
  CHECK(sum.calls[0].count == 2);
  CHECK(sum.calls[0].totalNs == 4012250);
  CHECK(sum.calls[0].longestNs == 4000000);
  int64_t phaseNs = 0;
  for (const auto &[phase, ns] : sum.calls[0].phaseNs)
    phaseNs += ns;
  CHECK(phaseNs == sum.calls[0].totalNs);
  CHECK(sample.trace.text(sum.phases[1].phase) == "compile");
  CHECK(sum.phases[1].elsewhereNs == 3000000);
  CHECK(sum.phases[1].inCallsNs == 0);
  REQUIRE(sum.flows.size() == 1);
  CHECK(sum.flows[0].longestNs == 500000);
  REQUIRE(sum.threads.size() == 2);
  CHECK(sum.threads[0].busyNs == 4200000);
  CHECK(sum.threads[0].calls == 2);
  CHECK(sum.longestCalls.size() == 2);

  // A call in a call of its own function counts once.
  Nested twice({intervalOf("f", "call", "2", "3"),
                intervalOf("g", "call", "6", "1"),
                intervalOf("f", "call", "0", "10")});
  TraceSummary nested(twice.tree, TraceSelection::all(twice.tree));
  REQUIRE(nested.calls.size() == 2);
  CHECK(nested.calls[0].count == 2);
  CHECK(nested.calls[0].totalNs == 10000);
  CHECK(nested.calls[0].phaseNs.begin()->second == 9000);
  CHECK(nested.calls[1].totalNs == 1000);
}
