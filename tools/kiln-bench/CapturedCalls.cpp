//===- CapturedCalls.cpp --------------------------------------------------===//
#include "kiln-bench/CapturedCalls.h"

#include "Driver/Graph.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace kiln::cli {

using std::chrono::milliseconds;

namespace {

class Capturer {
public:
  Capturer(const Driver &driver, const LayerProducts &products,
           kiln_engine *engine, Stream stream, DeviceMemory result,
           CheckedCalls &found)
      : driver(driver), products(products), engine(engine),
        stream(std::move(stream)), result(std::move(result)), found(found) {}

  /// The rows of a captured call at most.
  static constexpr int64_t kMostRows = 64;

  llvm::Error captureOne();

private:
  llvm::Expected<std::vector<PreparedCall>> nextCalls();

  const Driver &driver;
  const LayerProducts &products;
  kiln_engine *engine;
  Stream stream;
  DeviceMemory result;
  CheckedCalls &found;
  int64_t next = 0;
};

} // namespace

llvm::Expected<std::vector<PreparedCall>> Capturer::nextCalls() {
  constexpr int64_t kCalls = 4;
  std::vector<PreparedCall> calls;
  for (int64_t i = next; i < next + kCalls; ++i) {
    auto prepared = products.prepare(
        {static_cast<size_t>(i) % products.count(), 1 + i % kMostRows},
        result.address());
    if (!prepared)
      return prepared.takeError();
    calls.push_back(std::move(*prepared));
  }
  ++next;
  return calls;
}

llvm::Error Capturer::captureOne() {
  auto calls = nextCalls();
  if (!calls)
    return calls.takeError();
  llvm::Error error = Graph::beginCapture(driver, stream.handle());
  bool isGood = !error, isPrepared = true;
  llvm::consumeError(std::move(error));
  for (const PreparedCall &call : *calls) {
    const kiln_status status = call.launch(engine, stream);
    found.notPrepared += status == KILN_NOT_PREPARED;
    isPrepared &= status != KILN_NOT_PREPARED;
    isGood &= status == KILN_SUCCESS || status == KILN_NOT_PREPARED;
  }
  auto graph = Graph::endCapture(driver, stream.handle());
  if (!graph) {
    llvm::consumeError(graph.takeError());
    isGood = false;
  } else if (llvm::Error failure = graph->launch(stream.handle())) {
    llvm::consumeError(std::move(failure));
    isGood = false;
  }
  if (!isPrepared)
    for (const PreparedCall &call : *calls)
      isGood &= call.launch(engine, stream) == KILN_SUCCESS;
  if (llvm::Error failure = stream.synchronize())
    return failure;
  found.failedCaptures += !isGood;
  ++found.captures;
  return llvm::Error::success();
}

llvm::Error captureCalls(LiveSession &session, const LayerProducts &products,
                         kiln_engine *engine, const std::atomic<bool> &ends,
                         CheckedCalls &found) {
  const Driver &driver = session.driver();
  auto scope = ScopedContext::push(driver, session.primary->handle());
  if (!scope)
    return scope.takeError();
  auto stream = Stream::create(driver);
  if (!stream)
    return stream.takeError();
  uint64_t bytes = 0;
  for (size_t layer = 0; layer < products.count(); ++layer)
    bytes = std::max(bytes, products.bytesOf({layer, Capturer::kMostRows}));
  auto result = DeviceMemory::allocate(driver, bytes);
  if (!result)
    return result.takeError();
  Capturer capturer(driver, products, engine, std::move(*stream),
                    std::move(*result), found);
  constexpr int kOfBurst = 25;
  constexpr milliseconds kPause(1000), kBetween(1);
  while (!ends) {
    for (int i = 0; i < kOfBurst && !ends; ++i) {
      if (llvm::Error error = capturer.captureOne())
        return error;
      std::this_thread::sleep_for(kBetween);
    }
    for (milliseconds left = kPause; left.count() > 0 && !ends;
         left -= kBetween)
      std::this_thread::sleep_for(kBetween);
  }
  return llvm::Error::success();
}

} // namespace kiln::cli
