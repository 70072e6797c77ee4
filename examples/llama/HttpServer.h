//===- HttpServer.h - completions over HTTP/1.1 ---------------------------===//
//
//   POST /v1/completions   a completion, whole or as server-sent events
//   GET  /v1/models        the model
//   GET  /health           ready, loading, draining or lost
//   GET  /metrics          OpenMetrics
//
// One thread serves all connections; no function of it waits for a client or
// for the engine. Each connection has a timer for the header, the body and each
// write, a bound for its bytes and for its tokens. A client that ends its side
// of the connection has left, and so has its request.
//
// There is neither TLS nor authentication: the address is meant to be loopback.
// There, hosts are refused that are neither "localhost" nor an IP address, so
// that no page of a browser asks under a name of its own.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_HTTPSERVER_H
#define KILN_EXAMPLES_LLAMA_HTTPSERVER_H

#include "EngineLoop.h"
#include "ServeMetrics.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace llama {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0; ///< 0: any that is free
  /// Also addresses that are no loopback, and hosts of any name.
  bool allowsAnyHost = false;
  std::string model; ///< its name, for clients
  int64_t maxConnections = 256;
  uint64_t maxBodyBytes = uint64_t(1) << 20;
  /// Tokens that a stream holds for a client that does not read.
  size_t maxStreamTokens = 4096;
  /// For a header to arrive, also between requests; for a body to arrive; for
  /// the client to take what is written.
  std::chrono::milliseconds headerTime{10000}, bodyTime{30000},
      writeTime{10000};
};

class HttpServer {
public:
  /// Listens. Throws Error for an address that is refused or in use.
  HttpServer(HttpOptions options, EngineLoop &loop, ServeMetrics &metrics);
  ~HttpServer();

  uint16_t port() const;
  /// Calls \p stop in the thread of run() for SIGINT and SIGTERM. The second
  /// signal ends the process.
  void onSignal(std::function<void()> stop);
  /// Serves until finish(), whatever its handlers throw: that goes to stderr.
  /// One thread calls it, once.
  void run();
  /// Ends run() when all answers are written, or after \p most. No connection
  /// is accepted meanwhile. Any thread may call it.
  void finish(std::chrono::milliseconds most);

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_HTTPSERVER_H
