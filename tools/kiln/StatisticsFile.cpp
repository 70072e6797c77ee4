//===- StatisticsFile.cpp -------------------------------------------------===//
#include "kiln/StatisticsFile.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/OutputPath.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>

#include <algorithm>

namespace kiln::cli {

/// A number; those above 2^53 are texts in the file.
static std::optional<uint64_t> wholeOf(const llvm::json::Value *value) {
  if (!value)
    return std::nullopt;
  if (auto number = value->getAsUINT64())
    return *number;
  uint64_t number = 0;
  if (auto text = value->getAsString(); text && !text->getAsInteger(10, number))
    return number;
  return std::nullopt;
}

/// A number or a text, as text.
static std::string wordOf(const llvm::json::Object &object,
                          llvm::StringRef key) {
  if (auto text = object.getString(key))
    return text->str();
  auto number = wholeOf(object.get(key));
  return number ? fmt::to_string(*number) : "";
}

static WaitedCall waitedCallOf(const llvm::json::Object &wait) {
  return {wordOf(wait, "call"),
          wordOf(wait, "problem"),
          wordOf(wait, "phase"),
          wordOf(wait, "reason"),
          wholeOf(wait.get("start_unix_ns")).value_or(0),
          wait.getNumber("elapsed_ms").value_or(0),
          wait.getNumber("phase_ms").value_or(0),
          wordOf(wait, "thread")};
}

llvm::Expected<StatisticsFile> StatisticsFile::read(const std::string &path) {
  auto text = readNamedFile(path, kMaxJsonBytes);
  if (!text)
    return text.takeError();
  auto value = parseJson(*text, path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Object *fields =
      object ? object->getObject("statistics") : nullptr;
  if (!fields || !object->get("kiln_statistics"))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: it is not a file that KILN_STATISTICS named, which "
                     "has 'kiln_statistics' and 'statistics'",
                     path);
  if (auto form = wordOf(*object, "kiln_statistics"); form != "1")
    return makeError(ErrorCode::InvalidArgument,
                     "{}: it has form {} of the statistics, this tool reads "
                     "form 1",
                     path, form);
  StatisticsFile file;
  file.path = path;
  file.version = wordOf(*object, "version");
  file.pid = wordOf(*object, "pid");
  file.engine = wordOf(*object, "engine");
  file.unixNs = wholeOf(object->get("unix_ns")).value_or(0);
  for (const auto &[key, field] : *fields) {
    if (auto whole = wholeOf(&field))
      file.counts[key.str()] = double(*whole);
    else if (auto number = field.getAsNumber())
      file.counts[key.str()] = *number;
    else
      ++file.odd;
  }
  if (const llvm::json::Array *waits = object->getArray("waits"))
    for (const llvm::json::Value &wait : *waits) {
      if (const llvm::json::Object *entry = wait.getAsObject())
        file.waits.push_back(waitedCallOf(*entry));
      else
        ++file.odd;
    }
  llvm::stable_sort(file.waits, [](const WaitedCall &a, const WaitedCall &b) {
    return a.elapsedMs > b.elapsedMs;
  });
  file.document = std::move(*value->getAsObject());
  return file;
}

/// The number by which the process calls itself, which is another one than
/// \p pid in a container.
static std::string ownNumberOf(const std::string &folder, std::string pid) {
  auto status = readNamedFile(folder + "/status", 1 << 20);
  if (!status) {
    llvm::consumeError(status.takeError());
    return pid;
  }
  for (llvm::StringRef line : llvm::split(*status, '\n'))
    if (line.consume_front("NSpid:"))
      return line.rtrim().substr(line.rtrim().find_last_of(" \t") + 1).str();
  return pid;
}

llvm::Expected<std::string> findStatistics(const std::string &text,
                                           const std::string &proc) {
  const bool isNumber = !text.empty() && llvm::all_of(text, llvm::isDigit);
  if (!isNumber || llvm::sys::fs::exists(text))
    return text;
  const std::string folder = proc + '/' + text;
  if (!llvm::sys::fs::is_directory(folder))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is neither a file nor a process of that name",
                     text);
  constexpr uint64_t kMostEnvironment = 16 << 20;
  auto environment = readNamedFile(folder + "/environ", kMostEnvironment);
  if (!environment)
    return addContext(environment.takeError(), "process " + text);
  for (llvm::StringRef variable : llvm::split(*environment, '\0')) {
    if (!variable.consume_front("KILN_STATISTICS=") || variable.empty())
      continue;
    const std::string number = ownNumberOf(folder, text);
    std::string path = processPath(variable, number);
    // As the process sees it, which may be in a container.
    path =
        path.front() == '/' ? folder + "/root" + path : folder + "/cwd/" + path;
    // Another process may have had the name first.
    const std::string own = numberedPath(path, number);
    return llvm::sys::fs::exists(own) ? own : path;
  }
  return makeError(ErrorCode::InvalidArgument,
                   "process {}: it was started without KILN_STATISTICS, so its "
                   "engines write no file",
                   text);
}

} // namespace kiln::cli
