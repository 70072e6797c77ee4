//===- Layers.cpp ---------------------------------------------------------===//
#include "kiln/Layers.h"

#include "Support/Json.h"

namespace kiln::cli {

llvm::Expected<NamedRange> NamedRange::parse(llvm::StringRef text) {
  NamedRange range;
  auto [key, values] = text.split('=');
  auto [first, last] = values.split("..");
  range.key = key.str();
  if (key.empty() || first.getAsInteger(10, range.first) ||
      last.getAsInteger(10, range.last) || range.first < 1 ||
      range.last < range.first)
    return makeError(ErrorCode::InvalidArgument,
                     "--range={} is not a range such as m=1..8192", text);
  return range;
}

std::string NamedRange::text() const {
  return fmt::format("{}={}..{}", key, first, last);
}

llvm::Expected<Case> Layer::at(llvm::StringRef key, int64_t value) const {
  Record record = described;
  record.set(key, value);
  auto problem = family->canonicalise(std::move(record));
  if (!problem)
    return addContext(problem.takeError(), name);
  return Case{fmt::format("{}/{}{}", name, key, value),
              {family, std::move(*problem)}};
}

/// Gives \p fields the first value of \p range.
static llvm::Error addExtent(const KernelFamily &family,
                             llvm::json::Object &fields,
                             const NamedRange &range) {
  const RecordSchema &schema = family.problemSchema();
  const int field = schema.find(range.key);
  if (field < 0 || !schema.fields()[static_cast<size_t>(field)].mayVary())
    return makeError(ErrorCode::InvalidArgument,
                     "{} is not an extent of {} that may vary", range.key,
                     family.name());
  if (!fields.try_emplace(range.key, range.first).second)
    return makeError(ErrorCode::InvalidArgument,
                     "{} is given, which --range={} varies", range.key,
                     range.text());
  return llvm::Error::success();
}

llvm::Expected<std::vector<Layer>> parseLayers(const llvm::json::Value &json,
                                               llvm::StringRef path,
                                               const NamedRange &range,
                                               const Registry &registry) {
  auto complete = [&](const KernelFamily &family, llvm::json::Object &fields) {
    return addExtent(family, fields, range);
  };
  std::vector<Layer> layers;
  llvm::Error error = readEntries(
      json, path, {"layers", "", complete}, registry,
      [&](SuiteEntry entry) -> llvm::Error {
        Layer layer{std::move(entry.name), entry.family,
                    std::move(entry.record)};
        // The largest problem tells whether all can be described.
        if (auto largest = layer.at(range.key, range.last); !largest)
          return largest.takeError();
        layers.push_back(std::move(layer));
        return llvm::Error::success();
      });
  if (error)
    return error;
  return layers;
}

llvm::Expected<std::vector<Layer>> readLayers(const ParsedOptions &options,
                                              const NamedRange &range,
                                              const Registry &registry) {
  if (!options.operands().empty())
    return makeError(ErrorCode::InvalidArgument,
                     "--draw takes layers of --suite, got the problem '{}'",
                     options.operands().front());
  std::optional<std::string> path = options.value("--suite");
  if (!path)
    return makeError(ErrorCode::InvalidArgument,
                     "--draw needs layers: --suite FILE");
  auto json = readJsonFile(*path);
  if (!json)
    return json.takeError();
  auto layers = parseLayers(*json, *path, range, registry);
  if (!layers)
    return layers.takeError();
  std::string filter = options.value("--filter").value_or("");
  std::vector<Layer> chosen;
  for (Layer &layer : *layers)
    if (llvm::StringRef(layer.name).contains(filter))
      chosen.push_back(std::move(layer));
  if (chosen.empty())
    return makeError(
        ErrorCode::InvalidArgument, "{}: no layer{}", *path,
        filter.empty() ? "" : fmt::format(" has '{}' in its name", filter));
  return chosen;
}

} // namespace kiln::cli
