// The page of kiln explain --html.
#include "Families/Families.h"
#include "Tools/ToolRunner.h"
#include "Tools/XmlCheck.h"
#include "cli/Html.h"

#include <doctest/doctest.h>

#include <llvm/ADT/StringExtras.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

using namespace kiln::testing;
using kiln::cli::markupText;

/// How often each source has values in an expression.
using SourceCounts = std::map<std::string, size_t>;

static std::string readAll(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The text of \p markup that a reader sees: no tags, and no marks of sources.
static std::string visible(llvm::StringRef markup) {
  std::string text;
  while (!markup.empty()) {
    auto [content, rest] = markup.split('<');
    text += content;
    if (rest.consume_front("sup>"))
      rest = rest.split("</sup").second;
    markup = rest.split('>').second;
  }
  return text;
}

/// The markup of the formula of step \p number, or "".
static llvm::StringRef formulaOf(llvm::StringRef page, int64_t number) {
  const std::string id = "id=\"step" + std::to_string(number) + "\"";
  const llvm::StringRef step = page.split(id).second;
  return step.split("<div class=\"formula\">").second.split("</div>").first;
}

static void countSources(const llvm::json::Object &expression,
                         SourceCounts &counts) {
  if (auto source = expression.getString("source"))
    ++counts[source->str()];
  if (const llvm::json::Array *parts = expression.getArray("of"))
    for (const llvm::json::Value &part : *parts)
      countSources(*part.getAsObject(), counts);
}

/// Checks that \p page has each step of \p derivation as the report has it, and
/// a mark on each value. Returns the sources that occur.
static SourceCounts checkSteps(const std::string &page,
                               const llvm::json::Object &derivation) {
  SourceCounts all;
  for (const llvm::json::Value &value : *derivation.getArray("steps")) {
    const llvm::json::Object &step = *value.getAsObject();
    const int64_t number = step.getInteger("number").value_or(0);
    CAPTURE(number);
    const llvm::StringRef formula = formulaOf(page, number);
    CHECK(visible(formula) ==
          markupText(step.getString("formula").value_or("?")));
    for (const char *words : {"note", "verdict"})
      CHECK(llvm::StringRef(page).contains(
          markupText(step.getString(words).value_or("?"))));
    SourceCounts counts;
    countSources(*step.getObject("expression"), counts);
    for (const auto &[source, count] : counts) {
      CAPTURE(source);
      CHECK(formula.count("class=\"value " + source + "\"") == count);
      all[source] += count;
    }
  }
  return all;
}

/// Explains \p problem with \p config as a page, and checks it against the
/// report and \p terms, the addends.
static SourceCounts checkPage(const Tool &tool, const std::string &problem,
                              const std::string &config,
                              const llvm::json::Object &terms) {
  CAPTURE(problem);
  CAPTURE(config);
  const std::string path = tool.folder.path + "/explain.html";
  const ToolResult result = tool.run("explain " + problem + " --config " +
                                     config + " --json --html " + path);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  const std::string page = readAll(path);
  CHECK(isWellFormed(page));
  for (const char *loaded :
       {"http:", "https:", "<script", "<link", "src=", "@import", "url("})
    CHECK_MESSAGE(page.find(loaded) == std::string::npos, loaded);
  for (const auto &[term, ns] : terms) {
    llvm::StringRef name = term;
    CHECK(name.consume_back("_ns"));
    const std::string header =
        "<th scope=\"row\">" + markupText(name) + "</th>";
    CHECK_MESSAGE(page.find(header) != std::string::npos, header);
  }
  const llvm::json::Object json = result.json();
  return checkSteps(page, *json.getObject("derivation"));
}

static const char *const kProblems[] = {
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm",
    "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm",
    "gemm m=16 n=6144 k=4096 dtype=bf16 layout=NT b=int4 order_b=k64r16 "
    "scale_b=1x128 --device h200-sxm",
    "gemm m=512 n=512 k=512 dtype=fp32 --device h200-sxm",
    "gemm m=2048 n=2048 k=2048 dtype=fp16 layout=NT --device t4",
    "attention batch=1 sq=4096 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16 "
    "mask=causal --device h200-sxm",
    "attention batch=16 sq=1 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16 "
    "--device h200-sxm",
    "attention batch=1 sq=512 sk=512 heads=8 d=64 dtype=fp16 --device l40s",
    "attention batch=1 sq=64 sk=64 heads=8 d=64 dtype=fp16 align=2 --device t4",
    "gemm m=64 n=4096 k=4096 dtype=int8 layout=NN --device t4",
    "attention_merge rows=1024 heads=8 d=128 dtype=bf16 --device h200-sxm",
    "rmsnorm rows=8192 cols=8192 dtype=bf16 --device h200-sxm",
    "layernorm rows=4096 cols=1024 dtype=fp16 --device l40s",
    "softmax rows=4096 cols=32000 dtype=bf16 --device h200-sxm",
    "rowquant rows=4096 cols=4096 dtype=bf16 --device h200-sxm",
    "reduce op=sum rows=4096 cols=4096 dtype=fp32 --device h200-sxm",
    "transpose2d rows=4096 cols=4096 dtype=bf16 --device h200-sxm",
    "gather rows=4096 cols=4096 dtype=bf16 --device h200-sxm",
    "allreduce rows=64 cols=4096 ranks=4 dtype=bf16 residual=1 norm=1 "
    "--device h200-sxm",
    "rope tokens=2048 heads=32 kvheads=8 d=128 rotary=128 dtype=bf16 kcache=1 "
    "vcache=1 slots=array page=16 --device h200-sxm",
    "sample rows=64 vocab=128256 dtype=bf16 --device h200-sxm",
    "route tokens=256 experts=128 topk=8 dtype=bf16 --device h200-sxm",
    "combine tokens=1024 cols=4096 topk=8 dtype=bf16 residual=1 norm=1 "
    "--device h200-sxm",
    "elementwise op=silu,mul rows=4096 cols=4096 dtype=bf16 --device h200-sxm",
    "prepack source=gptq n=4096 k=4096 --device h200-sxm",
};

TEST_CASE("a page has every step and addend of every template, with sources") {
  const Tool tool;
  std::set<std::string> templates, families;
  SourceCounts sources;
  for (const std::string problem : kProblems) {
    CAPTURE(problem);
    const std::string family = problem.substr(0, problem.find(' '));
    families.insert(family);
    const ToolResult plan = tool.run("plan " + problem + " --json");
    REQUIRE(plan.code == 0);
    const llvm::json::Object json = plan.json();
    bool isFirst = true;
    for (const llvm::json::Value &value : *json.getArray("problems")
                                               ->front()
                                               .getAsObject()
                                               ->getArray("candidates")) {
      const llvm::json::Object &candidate = *value.getAsObject();
      const std::string config = candidate.getString("config")->str();
      const std::string tmpl =
          family + " " + config.substr(0, config.find('.'));
      if (!templates.insert(tmpl).second && !isFirst)
        continue;
      isFirst = false;
      for (const auto &[source, count] :
           checkPage(tool, problem, config, *candidate.getObject("terms")))
        sources[source] += count;
    }
  }
  for (const char *source : {"device", "fitted", "work", "literal"})
    CHECK_MESSAGE(sources[source] > 0, source);
  const kiln::Registry registry = kiln::makeBuiltinRegistry();
  for (const auto &family : registry.families())
    CHECK_MESSAGE(families.count(family->name().str()) == 1,
                  family->name().str());
}

TEST_CASE("a page says where the device's values come from") {
  const Tool tool;
  const std::string path = tool.folder.path + "/explain.html";
  const std::string override = tool.folder.path + "/override.json";
  std::ofstream(override) << "{\"dramGBs\": 4000}";
  const ToolResult text =
      tool.run("explain " + kSmallProblem + " --device h200-sxm --override " +
               override + " --html " + path);
  REQUIRE(text.code == 0);
  CHECK(text.out == tool.run("explain " + kSmallProblem +
                             " --device h200-sxm --override " + override)
                        .out);
  const std::string page = readAll(path);
  CHECK(page.find("<sup>cat</sup>") != std::string::npos);
  CHECK(page.find("<sup>ove</sup>") != std::string::npos);
  CHECK(page.find("dramGBs: override") != std::string::npos);
  CHECK(page.find("<th scope=\"row\" class=\"code\">dramGBs</th>"
                  "<td class=\"figure\">4000</td><td>GB/s</td>"
                  "<td>override</td>") != std::string::npos);
}

TEST_CASE("a page of a config that cannot run says why") {
  const Tool tool;
  const std::string path = tool.folder.path + "/explain.html";
  REQUIRE(tool.run("explain gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT "
                   "--device h200-sxm --config "
                   "sm90.bm128.bn256.bk64.st5.wg2.cm1.cn1 --html " +
                   path)
              .code == 0);
  const std::string page = readAll(path);
  CHECK(isWellFormed(page));
  CHECK(page.find("cannot run: shared-memory wall") != std::string::npos);
}

TEST_CASE("a page that cannot be written is an error before any work") {
  const Tool tool;
  const ToolResult result =
      tool.run("explain " + kSmallProblem + " --device h200-sxm --html " +
               tool.folder.path + "/missing/explain.html");
  CHECK(result.code != 0);
  CHECK(result.hasOneErrorLine());
  CHECK(result.out.empty());
  const ToolResult kernel =
      tool.run("explain kiln_gemm_step_gather_sig01ef --html " +
               tool.folder.path + "/kernel.html");
  CHECK(kernel.code == 2);
  CHECK(kernel.hasOneErrorLine());
}
