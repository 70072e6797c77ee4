//===- TraceFile.cpp ------------------------------------------------------===//
#include "trace/TraceFile.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/ReadFile.h"
#include "trace/TraceReader.h"
#include "trace/TraceScanner.h"

namespace kiln::cli {

std::string TraceThread::title() const {
  return name.empty() ? "thread " + tid : name;
}

std::string TraceFile::about(llvm::StringRef key) const {
  auto place = header.find(key.str());
  return place == header.end() ? "" : place->second;
}

/// Has \p scanner take the file. Errors as TraceFile::read().
static llvm::Error scan(const std::string &path, TraceScanner &scanner) {
  if (llvm::Error error = readNamedPieces(
          path, [&](llvm::StringRef piece) { scanner.feed(piece); }))
    return error;
  if (scanner.isTrace())
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "{}: it is not a Chrome trace, which is a JSON object with "
                   "a list 'traceEvents'",
                   path);
}

llvm::Expected<TraceFile> TraceFile::read(const std::string &path) {
  TraceReader reader;
  TraceScanner scanner(
      [&](llvm::StringRef text, uint64_t line) { reader.add(text, line); });
  if (llvm::Error error = scan(path, scanner))
    return error;
  reader.addHeader(scanner.about());
  return reader.finish(scanner.lost(), scanner.isCut());
}

llvm::Expected<std::string> TraceFile::close(const std::string &path) {
  std::string events;
  bool isFirst = true;
  TraceScanner scanner([&](llvm::StringRef text, uint64_t line) {
    std::string valid = jsonText(text);
    auto value = parseEvent(valid, "event");
    if (!value)
      return llvm::consumeError(value.takeError());
    events += isFirst ? "\n" : "\n,";
    events += valid;
    isFirst = false;
  });
  if (llvm::Error error = scan(path, scanner))
    return error;
  std::string head = scanner.head().str();
  const std::string tail = scanner.tail().str();
  // A list that is found in damaged text does not make that text valid.
  auto value = parseEvent(head + tail, "head");
  if (!value) {
    llvm::consumeError(value.takeError());
    head = "{\"traceEvents\":[";
  }
  return head + events + tail;
}

} // namespace kiln::cli
