//===- EmbeddedSources.cpp ------------------------------------------------===//
#include "Compile/EmbeddedSources.h"

#include "Support/Error.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <algorithm>

namespace kiln {

/// No source is near this; a file that is was not meant to be one.
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
    : sources(std::move(files)) {
  // Lengths keep a name from running into its contents.
  std::string text;
  for (const SourceFile &file : sources) {
    namePointers.push_back(file.name.c_str());
    textPointers.push_back(file.contents.c_str());
    text += fmt::format("{} {}\n{}{}", file.name.size(), file.contents.size(),
                        file.name, file.contents);
  }
  setDigest = strongHash(text);
}

llvm::Expected<std::shared_ptr<const SourceSet>>
SourceSet::create(std::vector<SourceFile> files) {
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
  return create(std::move(files));
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

const std::string *SourceSet::find(llvm::StringRef name) const {
  auto it = std::lower_bound(sources.begin(), sources.end(), name,
                             [](const SourceFile &file, llvm::StringRef name) {
                               return llvm::StringRef(file.name) < name;
                             });
  return it != sources.end() && it->name == name ? &it->contents : nullptr;
}

} // namespace kiln
