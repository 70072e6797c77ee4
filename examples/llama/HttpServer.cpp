//===- HttpServer.cpp - completions over HTTP/1.1 -------------------------===//
#include "HttpServer.h"

#include "HttpSession.h"

#include "Error.h"

#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

namespace llama {

/// Answers that the server has too many connections, and closes.
static void refuse(Tcp::socket socket) {
  constexpr int kUnavailable = 503;
  const std::string body =
      ApiError(kUnavailable, "the server has too many connections", "",
               "too_many_connections")
          .toJson();
  const std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nRetry-After: 1\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  // An empty send buffer has room for it.
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(Tcp::socket::shutdown_send, ignored);
}

/// Accepts connections. All but finish() runs in the thread of run().
class HttpServer::Impl {
public:
  Impl(HttpOptions given, EngineLoop &loop, ServeMetrics &metrics)
      : shared(std::move(given), loop, metrics, io), acceptor(io), retry(io),
        end(io), signals(io) {
    listen();
    accept();
  }

  ~Impl() { shared.onEmpty = nullptr; } // sessions are destroyed with `io`

  uint16_t port() const { return acceptor.local_endpoint().port(); }

  void onSignal(std::function<void()> stop) {
    signals.add(SIGINT);
    signals.add(SIGTERM);
    signals.async_wait([this, stop = std::move(stop)](auto error, int) {
      if (error)
        return;
      // A second one ends the process as if there were no handler.
      signals.clear();
      stop();
    });
  }

  /// A session answers for what its handlers throw; this is for the rest, such
  /// as want of memory for a new one.
  void run() {
    for (;;)
      try {
        io.run();
        return;
      } catch (const std::exception &error) {
        std::fprintf(stderr, "serve: %s\n", error.what());
      }
  }

  void finish(std::chrono::milliseconds most) {
    asio::post(io, [this, most] {
      boost::system::error_code ignored;
      acceptor.close(ignored);
      retry.cancel();
      signals.cancel();
      end.expires_after(most);
      end.async_wait([this](auto) { io.stop(); });
      shared.isFinishing = true;
      // A session leaves the list when it closes.
      for (HttpSession *session : std::set<HttpSession *>(shared.sessions))
        session->closeIfIdle();
      if (shared.sessions.empty())
        end.cancel();
      shared.onEmpty = [this] { end.cancel(); };
    });
  }

private:
  void listen() {
    boost::system::error_code error;
    const auto address = asio::ip::make_address(shared.options.host, error);
    if (error)
      throw Error("--host is '" + shared.options.host +
                  "', expected an IP address");
    if (!address.is_loopback() && !shared.options.allowsAnyHost)
      throw Error("--host is " + shared.options.host +
                  ", which other machines may reach: the server has neither "
                  "TLS nor authentication; --listen-anywhere allows it");
    const Tcp::endpoint endpoint(address, shared.options.port);
    acceptor.open(endpoint.protocol(), error);
    if (!error)
      acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error)
      acceptor.bind(endpoint, error);
    if (!error)
      acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      throw Error("listening on " + shared.options.host + ":" +
                  std::to_string(shared.options.port) +
                  " failed: " + error.message());
  }

  void accept() {
    acceptor.async_accept([this](auto error, Tcp::socket socket) {
      if (!acceptor.is_open())
        return;
      if (!error) {
        accept(); // first: a connection that fails ends no other
        return serve(std::move(socket));
      }
      // Such as too many open files: connections that end give some back.
      constexpr std::chrono::milliseconds kPause{100};
      retry.expires_after(kPause);
      retry.async_wait([this](auto cancelled) {
        if (!cancelled)
          accept();
      });
    });
  }

  void serve(Tcp::socket socket) {
    if (shared.sessions.size() >=
        static_cast<size_t>(shared.options.maxConnections)) {
      shared.metrics.refusedConnection();
      return refuse(std::move(socket));
    }
    std::make_shared<HttpSession>(std::move(socket), shared)->start();
  }

  HttpShared shared; // first: handlers of `io` own sessions, which use it
  asio::io_context io{1};
  Tcp::acceptor acceptor;
  asio::steady_timer retry, end;
  asio::signal_set signals;
};

HttpServer::HttpServer(HttpOptions options, EngineLoop &loop,
                       ServeMetrics &metrics)
    : impl(std::make_unique<Impl>(std::move(options), loop, metrics)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl->port(); }
void HttpServer::onSignal(std::function<void()> stop) {
  impl->onSignal(std::move(stop));
}
void HttpServer::run() { impl->run(); }
void HttpServer::finish(std::chrono::milliseconds most) { impl->finish(most); }

} // namespace llama
