//===- ServeCommand.cpp - completions over HTTP ---------------------------===//
//
// This thread loads the model and then runs the engine's steps. Another one
// serves the clients, from the beginning: they are told that the model is being
// loaded.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "EngineLoop.h"
#include "Error.h"
#include "HttpServer.h"
#include "Server.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace llama {

namespace {

using Milliseconds = std::chrono::milliseconds;

struct ServeOptions {
  HttpOptions http;
  int64_t maxQueue = 0;
  EngineLoop::Seconds drain{0}, lost{0};
  bool sharesPrefixes = true;
};

/// A day is for ever.
double secondsOf(Options &options, const char *name, double byDefault) {
  constexpr double kMost = 86400;
  return std::min(options.real(name, byDefault), kMost);
}

Milliseconds timeOf(Options &options, const char *name,
                    Milliseconds byDefault) {
  const EngineLoop::Seconds seconds(
      secondsOf(options, name, EngineLoop::Seconds(byDefault).count()));
  return std::chrono::duration_cast<Milliseconds>(seconds);
}

ServeOptions serveOptions(Options &options) {
  ServeOptions chosen;
  HttpOptions &http = chosen.http;
  http.host = options.text("host", http.host);
  http.allowsAnyHost = options.flag("listen-anywhere");
  const int64_t port = options.number("port", 0);
  if (port > UINT16_MAX)
    throw Error("--port is " + std::to_string(port) + ", expected 0 to " +
                std::to_string(UINT16_MAX));
  http.port = static_cast<uint16_t>(port);
  http.model = options.text("model", "llama-3-8b");
  http.maxConnections =
      options.number("max-connections", http.maxConnections, 1);
  http.maxBodyBytes = static_cast<uint64_t>(options.number(
      "max-body-bytes", static_cast<int64_t>(http.maxBodyBytes), 1));
  http.maxStreamTokens = static_cast<size_t>(options.number(
      "stream-tokens", static_cast<int64_t>(http.maxStreamTokens), 1));
  http.headerTime = timeOf(options, "header-seconds", http.headerTime);
  http.bodyTime = timeOf(options, "body-seconds", http.bodyTime);
  http.writeTime = timeOf(options, "write-seconds", http.writeTime);
  constexpr double kDrainSeconds = 30, kLostSeconds = 5;
  constexpr int64_t kMaxQueue = 128;
  chosen.maxQueue = options.number("max-queue", kMaxQueue);
  chosen.drain =
      EngineLoop::Seconds(secondsOf(options, "drain-seconds", kDrainSeconds));
  chosen.lost =
      EngineLoop::Seconds(secondsOf(options, "lost-seconds", kLostSeconds));
  chosen.sharesPrefixes = !options.flag("no-shared-prefixes");
  return chosen;
}

/// Set by a signal.
class StopFlag {
public:
  void set() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      isSet = true;
    }
    changed.notify_all();
  }
  bool get() const {
    const std::lock_guard<std::mutex> lock(mutex);
    return isSet;
  }
  void waitFor(EngineLoop::Seconds most) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, most, [this] { return isSet; });
  }

private:
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool isSet = false;
};

/// Thrown out of the loading of a model.
struct Stopped {};

/// Serves clients in a thread of its own. Its end waits for the last answers.
class HttpThread {
public:
  HttpThread(HttpServer &server, Milliseconds most)
      : server(server), most(most), thread([&server] { server.run(); }) {}
  ~HttpThread() {
    server.finish(most);
    thread.join();
  }
  HttpThread(const HttpThread &) = delete;
  HttpThread &operator=(const HttpThread &) = delete;

private:
  HttpServer &server;
  const Milliseconds most;
  std::thread thread;
};

void serveModel(const ChosenModel &chosen, const RunnerOptions &room,
                bool sharesPrefixes, EngineLoop &loop, const StopFlag &stop) {
  const Gpu gpu;
  const Progress show = progressBar();
  Runner runner(gpu, chosen.config, chosen.source, room,
                [&](const std::string &what, int64_t done, int64_t all) {
                  if (stop.get())
                    throw Stopped();
                  show(what, done, all);
                });
  // Requests say themselves what ends them.
  constexpr bool kIgnoresEnds = true;
  Server server(gpu, runner, sharesPrefixes, kIgnoresEnds);
  loop.run(server,
           {server.schedule().room(), runner.options().maxSequences,
            runner.model().eosTokens},
           [] {
             std::printf("ready\n");
             std::fflush(stdout);
           });
}

} // namespace

int serveCommand(Options &options) {
  const ChosenModel chosen = chooseModel(options);
  const RunnerOptions room = runnerOptions(options);
  const ServeOptions serve = serveOptions(options);
  options.requireNoOthers();

  ServeMetrics metrics;
  EngineLoop loop(metrics, serve.maxQueue);
  StopFlag stop;
  HttpServer http(serve.http, loop, metrics);
  http.onSignal([&] {
    stop.set();
    loop.stop(serve.drain);
  });
  const bool isIpv6 = serve.http.host.find(':') != std::string::npos;
  std::printf("listening on http://%s%s%s:%d\n", isIpv6 ? "[" : "",
              serve.http.host.c_str(), isIpv6 ? "]" : "", http.port());
  std::fflush(stdout);
  const HttpThread thread(http, serve.http.writeTime);
  try {
    serveModel(chosen, room, serve.sharesPrefixes, loop, stop);
  } catch (const Stopped &) {
    // By a signal, as after run().
  } catch (const DeviceLost &) {
    stop.waitFor(serve.lost); // /health tells it meanwhile
    throw;
  }
  return 0;
}

} // namespace llama
