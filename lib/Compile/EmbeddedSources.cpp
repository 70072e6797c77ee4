//===- EmbeddedSources.cpp ------------------------------------------------===//
#include "Compile/EmbeddedSources.h"

#include "Compile/SourceText.h"
#include "Support/Error.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <algorithm>
#include <set>

namespace kiln {

/// No source comes near this size; a file that does was not meant to be one.
static constexpr uint64_t kMaxSourceBytes = 16u << 20;

static bool isRootRelative(llvm::StringRef name) {
  if (name.empty() || !llvm::all_of(name, llvm::isPrint))
    return false;
  llvm::SmallVector<llvm::StringRef, 8> components;
  name.split(components, '/');
  return llvm::none_of(components, [](llvm::StringRef component) {
    return component.empty() || component == "." || component == "..";
  });
}

SourceSet::SourceSet(std::vector<SourceFile> files)
    : sources(std::move(files)), scans(sources.size()) {}

llvm::Expected<std::shared_ptr<const SourceSet>>
SourceSet::create(std::vector<SourceFile> files) {
  for (SourceFile &file : files) {
    file.contents = withoutProse(file.contents);
    if (auto error = checkSource(file.contents))
      return addContext(std::move(error),
                        fmt::format("source '{}'", file.name));
  }
  return createFromStripped(std::move(files));
}

/// A set of files that have no prose and passed checkSource().
llvm::Expected<std::shared_ptr<const SourceSet>>
SourceSet::createFromStripped(std::vector<SourceFile> files) {
  std::sort(
      files.begin(), files.end(),
      [](const SourceFile &a, const SourceFile &b) { return a.name < b.name; });
  for (size_t i = 0; i < files.size(); ++i) {
    if (!isRootRelative(files[i].name))
      return makeError(ErrorCode::InvalidArgument,
                       "source name '{}' is not root-relative", files[i].name);
    if (i > 0 && files[i].name == files[i - 1].name)
      return makeError(ErrorCode::InvalidArgument,
                       "source '{}' is in the set twice", files[i].name);
    if (files[i].contents.find('\0') != std::string::npos)
      return makeError(ErrorCode::InvalidArgument, "source '{}' contains a NUL",
                       files[i].name);
  }
  return std::shared_ptr<const SourceSet>(new SourceSet(std::move(files)));
}

llvm::Expected<std::shared_ptr<const SourceSet>>
SourceSet::fromEmbedded(llvm::ArrayRef<EmbeddedSource> sources) {
  std::vector<SourceFile> files;
  files.reserve(sources.size());
  for (const EmbeddedSource &source : sources)
    files.push_back({source.name, std::string(source.text, source.size)});
  return createFromStripped(std::move(files));
}

static llvm::Expected<SourceFile> readSource(llvm::StringRef path,
                                             llvm::StringRef directory) {
  auto text = readNamedFile(path.str(), kMaxSourceBytes);
  if (!text)
    return text.takeError();
  llvm::StringRef name = path.drop_front(directory.size()).ltrim('/');
  return SourceFile{name.str(), std::move(*text)};
}

llvm::Expected<std::shared_ptr<const SourceSet>>
SourceSet::loadDirectory(llvm::StringRef directory) {
  namespace fs = llvm::sys::fs;
  std::vector<SourceFile> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(directory, error,
                                         /*follow_symlinks=*/false);
  fs::recursive_directory_iterator end;
  while (!error && entry != end) {
    llvm::StringRef path = entry->path();
    llvm::StringRef extension = llvm::sys::path::extension(path);
    if ((extension == ".h" || extension == ".cuh") &&
        fs::is_regular_file(path)) {
      llvm::Expected<SourceFile> file = readSource(path, directory);
      if (!file)
        return file.takeError();
      files.push_back(std::move(*file));
    }
    entry.increment(error);
  }
  if (error)
    return makeError(ErrorCode::Io, "{}: {}", directory, error.message());
  if (files.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "{}: no *.h or *.cuh in this directory", directory);
  return create(std::move(files));
}

/// The place of \p name among the sorted sources, past them if it is missing.
size_t SourceSet::indexOf(llvm::StringRef name) const {
  auto it = std::lower_bound(sources.begin(), sources.end(), name,
                             [](const SourceFile &file, llvm::StringRef name) {
                               return llvm::StringRef(file.name) < name;
                             });
  bool isThere = it != sources.end() && it->name == name;
  return isThere ? size_t(it - sources.begin()) : sources.size();
}

const std::string *SourceSet::find(llvm::StringRef name) const {
  size_t index = indexOf(name);
  return index < sources.size() ? &sources[index].contents : nullptr;
}

//===----------------------------------------------------------------------===//
// Closures
//===----------------------------------------------------------------------===//

/// \p text without the splices that keyText() leaves, which are in literals and
/// names of headers. (In a raw string these are not splices, but a compiler
/// includes nothing there.)
static std::string joinLines(llvm::StringRef text) {
  std::string joined;
  joined.reserve(text.size());
  while (!text.empty()) {
    if (text.consume_front("\\\n") || text.consume_front("\\\r\n"))
      continue;
    joined += text.front();
    text = text.drop_front();
  }
  return joined;
}

/// \p tokens are of keyText(): no comments, and each directive on a line except
/// for splices in names.
SourceSet::Includes SourceSet::includesOf(llvm::StringRef tokens) {
  const std::string joined = joinLines(tokens);
  const llvm::StringRef text = joined;
  static constexpr llvm::StringLiteral kWord = "include";
  static constexpr char kBlank = ' ';
  Includes found;
  for (size_t at = text.find(kWord); at != llvm::StringRef::npos;
       at = text.find(kWord, at + kWord.size())) {
    llvm::StringRef before = text.take_front(at);
    if (before.ends_with("__has_"))
      found.isComputed = true;
    before = before.rtrim(kBlank);
    if (!before.ends_with("#") && !before.ends_with("%:"))
      continue; // a word like any other
    llvm::StringRef rest = text.drop_front(at + kWord.size());
    rest.consume_front("_next");
    rest = rest.ltrim(kBlank).take_until([](char c) { return c == '\n'; });
    llvm::StringRef close = rest.starts_with("<") ? ">" : "\"";
    size_t end = rest.starts_with("<") || rest.starts_with("\"")
                     ? rest.find(close, 1)
                     : llvm::StringRef::npos;
    if (end == llvm::StringRef::npos)
      found.isComputed = true;
    else
      found.names.push_back(rest.slice(1, end).str());
  }
  return found;
}

llvm::Error SourceSet::checkSource(llvm::StringRef given) {
  const std::string tokens = joinLines(keyText(given));
  const llvm::StringRef text = tokens;
  const Includes includes = includesOf(text);
  for (llvm::StringRef name : includes.names)
    if (name.starts_with("/"))
      return makeError(ErrorCode::InvalidArgument,
                       "it includes '{}': a name may not be absolute", name);
  // A name that only a preprocessor finds: look for all that may be one.
  if (includes.isComputed && (text.contains("\"/") || text.contains("</")))
    return makeError(ErrorCode::InvalidArgument,
                     "it computes an include and holds a name that begins with "
                     "'/': a name may not be absolute");
  for (llvm::StringRef macro : {"__DATE__", "__TIME__", "__TIMESTAMP__"})
    if (text.contains(macro))
      return makeError(ErrorCode::InvalidArgument,
                       "it uses {}: a kernel may not depend on the time",
                       macro);
  return llvm::Error::success();
}

/// Needs the lock.
const SourceSet::Scan &SourceSet::scan(size_t index) const {
  std::optional<Scan> &place = scans[index];
  if (!place) {
    const std::string &contents = sources[index].contents;
    const std::string tokens = keyText(contents);
    place = Scan{strongHash(tokens), strongHash(contents),
                 dependsOnLines(tokens), includesOf(tokens)};
  }
  return *place;
}

/// Needs the lock.
SourceClosure SourceSet::reach(const Includes &direct) const {
  std::vector<bool> isReached(sources.size());
  std::set<llvm::StringRef> missing;
  std::vector<const Includes *> left = {&direct};
  while (!left.empty()) {
    const Includes &includes = *left.back();
    left.pop_back();
    if (includes.isComputed)
      isReached.assign(sources.size(), true);
    for (llvm::StringRef name : includes.names) {
      size_t index = indexOf(name);
      if (index == sources.size()) {
        missing.insert(name);
      } else if (!isReached[index]) {
        isReached[index] = true;
        left.push_back(&scan(index).includes);
      }
    }
  }

  SourceClosure closure;
  std::string text, textOfLines;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!isReached[i])
      continue;
    const Scan &found = scan(i);
    const std::string &name = sources[i].name;
    closure.names.push_back(name.c_str());
    closure.texts.push_back(sources[i].contents.c_str());
    closure.asksForLines |= found.asksForLines;
    text += fmt::format("{} {}\n", name, found.digest.hex());
    textOfLines += fmt::format("{} {}\n", name, found.digestOfLines.hex());
  }
  for (llvm::StringRef name : missing) {
    text += fmt::format("{} -\n", name);
    textOfLines += fmt::format("{} -\n", name);
  }
  closure.digest = strongHash(text);
  closure.digestOfLines = strongHash(textOfLines);
  closure.isEmpty = text.empty();
  return closure;
}

const SourceClosure &SourceSet::closureOf(llvm::StringRef text) const {
  Includes direct = includesOf(keyText(text));
  std::string key = direct.isComputed ? "*" : "";
  for (const std::string &name : direct.names)
    key += "\n" + name;
  std::lock_guard<std::mutex> lock(mutex);
  auto known = closures.find(key);
  if (known == closures.end())
    known = closures.emplace(std::move(key), reach(direct)).first;
  return known->second;
}

} // namespace kiln
