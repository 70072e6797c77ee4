//===- KernelName.cpp -----------------------------------------------------===//
#include "Kernel/KernelName.h"

#include "Support/Error.h"
#include "Support/Hash.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>

namespace kiln {

static constexpr llvm::StringLiteral kReference = "reference", kStep = "step",
                                     kTag = "sig";
static constexpr size_t kTagDigits = 4;

static std::string familyPrefix(llvm::StringRef family) {
  return (kKernelPrefix + family + "_").str();
}

std::string kernelName(const Schema &problems, const Values &config) {
  std::string words = config.compiledText();
  std::replace(words.begin(), words.end(), '.', '_');
  return familyPrefix(problems.name()) + words;
}

std::string referenceName(const Schema &problems, llvm::StringRef variant) {
  return familyPrefix(problems.name()) + kReference.str() +
         (variant.empty() ? "" : "_" + variant.str());
}

std::string stepName(const Schema &problems, llvm::StringRef step) {
  return familyPrefix(problems.name()) + (kStep + "_" + step).str();
}

std::string tagged(std::string name, llvm::StringRef signature) {
  const std::string digits = strongHash(signature).hex().substr(0, kTagDigits);
  return std::move(name) + "_" + kTag.str() + digits;
}

std::string KernelName::text() const {
  return (family->name() + " " + (tmpl ? config.text() : role)).str();
}

/// Takes the tag off \p words, the part behind the family's name, and keeps it.
static bool takeTag(llvm::StringRef &words, std::string &tag) {
  auto [rest, last] = words.rsplit('_');
  auto isDigit = [](char c) {
    return llvm::isDigit(c) || (c >= 'a' && c <= 'f');
  };
  if (!last.consume_front(kTag) || last.size() != kTagDigits ||
      !llvm::all_of(last, isDigit))
    return false;
  words = rest;
  tag = last.str();
  return true;
}

/// Parses \p words, the part between family and tag, for a kernel of
/// name.family.
static llvm::Error parseWords(llvm::StringRef words, KernelName &name) {
  const llvm::StringRef first = words.split('_').first;
  const bool isStep = first == kStep && words.size() > kStep.size() + 1;
  if (first == kReference || isStep) {
    const llvm::StringRef rest = words.drop_front(first.size());
    name.role = first.str();
    if (!rest.empty())
      name.role += " " + rest.drop_front().str();
    return llvm::Error::success();
  }
  std::string text = words.str();
  std::replace(text.begin(), text.end(), '_', '.');
  auto config = name.family->parseConfig(text);
  if (!config)
    return config.takeError();
  name.tmpl = config->tmpl;
  name.config = std::move(config->config);
  return llvm::Error::success();
}

llvm::Expected<KernelName> parseKernelName(const Registry &registry,
                                           llvm::StringRef text) {
  auto refuse = [&](const std::string &why) {
    return makeError(ErrorCode::InvalidArgument,
                     "'{}' is not the name of a kernel of Kiln: {}",
                     text.take_front(kMaxKernelName), why);
  };
  llvm::StringRef words = text;
  KernelName name;
  if (!words.consume_front(kKernelPrefix))
    return refuse("it does not begin with " + kKernelPrefix.str());
  if (!takeTag(words, name.tag))
    return refuse("it does not end with the tag of a signature");
  // One family's name may be a prefix of another's, so the longest one counts.
  for (const auto &family : registry.families())
    if (words.starts_with((family->name() + "_").str()) &&
        (!name.family || family->name().size() > name.family->name().size()))
      name.family = family.get();
  if (!name.family)
    return refuse("no family is called so");
  if (auto error =
          parseWords(words.drop_front(name.family->name().size() + 1), name))
    return refuse(summarize(std::move(error)).message);
  return name;
}

} // namespace kiln
