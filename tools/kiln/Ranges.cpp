//===- Ranges.cpp - ranges of layers, for commands that prepare them ------===//
#include "kiln/Ranges.h"

#include "Call/ProblemSpec.h"
#include "Store/Records.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

namespace kiln::cli {

namespace {
/// A problem, by its text; its values in the range do not matter.
struct NamedText {
  std::string name, text;
};
} // namespace

/// The layers or cases of --suite that pass --filter.
static llvm::Error readSuite(const ParsedOptions &options,
                             const NamedRanges &ranges,
                             const Registry &registry,
                             std::vector<NamedText> &texts) {
  std::optional<std::string> path = options.value("--suite");
  if (!path)
    return llvm::Error::success();
  auto json = readJsonFile(*path);
  if (!json)
    return json.takeError();
  const std::string filter = options.value("--filter").value_or("");
  auto add = [&](llvm::StringRef name, const Values &values) {
    if (name.contains(filter))
      texts.push_back({name.str(), values.text()});
  };
  const llvm::json::Object *object = json->getAsObject();
  if (object && object->get("layers")) {
    auto layers =
        parseLayers(*json, *path, ranges, RangedExtents::Dynamic, registry);
    if (!layers)
      return layers.takeError();
    for (const Layer &layer : *layers)
      add(layer.name, layer.described);
  } else {
    auto cases = parseSuite(*json, *path, registry);
    if (!cases)
      return cases.takeError();
    for (const Case &entry : *cases)
      add(entry.name, entry.named.problem.values);
  }
  return llvm::Error::success();
}

/// Adds the ranges of the problem of \p from, unless they are known.
static llvm::Error addRanges(const NamedText &from, const NamedRanges &ranges,
                             const Registry &registry, llvm::StringSet<> &known,
                             std::vector<RangeCase> &cases) {
  const std::vector<kiln_range> given = givenRanges(ranges);
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = KILN_FAMILY_FROM_TEXT;
  problem.text = from.text.c_str();
  problem.ranges = given.data();
  problem.range_count = static_cast<uint32_t>(given.size());
  auto spec = ProblemSpec::parse(registry, &problem);
  if (!spec)
    return addContext(spec.takeError(), from.name);
  llvm::SmallVector<int, 4> fields;
  ExtentPoint low, high;
  for (const ExtentRange &range : spec->ranges) {
    fields.push_back(range.field);
    low.push_back(range.first);
    high.push_back(range.last);
  }
  auto split = rangesOf(*spec->family, spec->described, fields, low, high);
  if (!split)
    return addContext(split.takeError(), from.name);
  for (auto [i, range] : llvm::enumerate(*split)) {
    if (!known.insert(range.fixedText()).second)
      continue;
    std::string name = from.name;
    if (split->size() > 1)
      name += fmt::format(" ({} of {})", i + 1, split->size());
    cases.push_back({std::move(name), std::move(range)});
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<RangeCase>> readRanges(const ParsedOptions &options,
                                                  const Registry &registry) {
  auto ranges = readNamedRanges(options);
  if (!ranges)
    return ranges.takeError();
  std::vector<NamedText> texts;
  auto operands = readOperands(options, registry);
  if (!operands)
    return operands.takeError();
  for (const Case &entry : *operands)
    texts.push_back({entry.name, entry.text()});
  if (llvm::Error error = readSuite(options, *ranges, registry, texts))
    return error;
  if (texts.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "--range: no problem and no layer is given");
  llvm::StringSet<> known;
  std::vector<RangeCase> cases;
  for (const NamedText &text : texts)
    if (llvm::Error error = addRanges(text, *ranges, registry, known, cases))
      return error;
  return cases;
}

} // namespace kiln::cli
