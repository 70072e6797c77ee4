//===- Suite.cpp ----------------------------------------------------------===//
#include "cli/Suite.h"

#include "Support/Error.h"
#include "Support/Printable.h"

#include <llvm/ADT/StringSet.h>

namespace kiln::cli {

static llvm::Expected<SuiteEntry> parseEntry(const llvm::json::Value &json,
                                             const SuiteForm &form,
                                             const Registry &registry) {
  const llvm::json::Object *object = json.getAsObject();
  if (!object)
    return makeError(ErrorCode::InvalidArgument, "it is not an object");
  SuiteEntry entry;
  // Reports show it in tables and in lines of their own.
  entry.name = printable(object->getString("name").value_or(""));
  if (entry.name.empty())
    return makeError(ErrorCode::InvalidArgument, "name is missing");
  auto familyName = object->getString("family");
  if (!familyName)
    return makeError(ErrorCode::InvalidArgument, "family is missing");
  auto family = registry.get(*familyName);
  if (!family)
    return family.takeError();
  entry.family = *family;
  llvm::json::Object fields = *object;
  if (form.complete)
    if (llvm::Error error = form.complete(*entry.family, fields))
      return error;
  auto values = Values::fromJson(entry.family->problemSchema(), fields,
                                 {"name", "family"});
  if (!values)
    return values.takeError();
  entry.values = std::move(*values);
  return entry;
}

/// How errors call the entry at \p index.
static std::string labelOf(const llvm::json::Value &json, size_t index) {
  const llvm::json::Object *object = json.getAsObject();
  auto name = object ? object->getString("name") : std::nullopt;
  if (name && !name->empty())
    return fmt::format("case '{}'", *name);
  return fmt::format("case {}", index + 1);
}

llvm::Error readEntries(const llvm::json::Value &json, llvm::StringRef path,
                        const SuiteForm &form, const Registry &registry,
                        llvm::function_ref<llvm::Error(SuiteEntry)> take) {
  const llvm::json::Object *object = json.getAsObject();
  const llvm::json::Array *list = object ? object->getArray(form.key) : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument, "{}: there is no array '{}'{}",
                     path, form.key, form.hint);
  for (const auto &[key, value] : *object)
    if (llvm::StringRef name = key; name != form.key && name != "comment")
      return makeError(ErrorCode::InvalidArgument,
                       "{}: unknown key '{}', known are comment, {}", path,
                       key.str(), form.key);
  llvm::StringSet<> names;
  for (size_t i = 0; i < list->size(); ++i) {
    std::string label = labelOf((*list)[i], i);
    auto parsed = parseEntry((*list)[i], form, registry);
    if (!parsed)
      return addContext(parsed.takeError(), path + ": " + label);
    if (!names.insert(parsed->name).second)
      return makeError(ErrorCode::InvalidArgument, "{}: {} is there twice",
                       path, label);
    if (llvm::Error error = take(std::move(*parsed)))
      return addContext(std::move(error), path + ": " + label);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<Case>> parseSuite(const llvm::json::Value &json,
                                             llvm::StringRef path,
                                             const Registry &registry) {
  const llvm::json::Object *object = json.getAsObject();
  const bool hasLayers = object && object->get("layers");
  SuiteForm form{
      "cases",
      hasLayers ? "; its layers are for --range, and for kiln-bench draw" : ""};
  std::vector<Case> cases;
  llvm::Error error = readEntries(
      json, path, form, registry, [&](SuiteEntry entry) -> llvm::Error {
        auto problem = entry.family->canonicalise(std::move(entry.values));
        if (!problem)
          return problem.takeError();
        cases.push_back(
            {std::move(entry.name), {entry.family, std::move(*problem)}});
        return llvm::Error::success();
      });
  if (error)
    return error;
  return cases;
}

} // namespace kiln::cli
