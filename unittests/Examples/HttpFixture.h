// A server of HTTP over a stand-in of the engine, and a raw socket as a client.
#ifndef KILN_UNITTESTS_EXAMPLES_HTTPFIXTURE_H
#define KILN_UNITTESTS_EXAMPLES_HTTPFIXTURE_H

#include "Examples/StandInEngine.h"
#include "llama/HttpServer.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace kiln::testing {

class Connection {
public:
  /// \p receiveBytes is the room of the socket; 0: as the system chooses.
  explicit Connection(uint16_t port, int receiveBytes = 0)
      : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receiveBytes > 0)
      setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receiveBytes,
                 sizeof(receiveBytes));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket, reinterpret_cast<sockaddr *>(&address),
                    sizeof(address)) == 0);
  }
  ~Connection() { ::close(socket); }
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  /// False: the server has closed.
  bool send(const std::string &bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now = ::send(socket, bytes.data() + sent,
                                 bytes.size() - sent, MSG_NOSIGNAL);
      if (now <= 0)
        return false;
      sent += static_cast<size_t>(now);
    }
    return true;
  }
  void endSending() const { shutdown(socket, SHUT_WR); }

  /// Reads up to the end of \p mark, or all until the server closes. Bytes
  /// behind the mark are kept for the next call.
  std::string receive(const std::string &mark = "") {
    for (;;) {
      const size_t found =
          mark.empty() ? std::string::npos : received.find(mark);
      if (found != std::string::npos) {
        std::string text = received.substr(0, found + mark.size());
        received.erase(0, text.size());
        return text;
      }
      pollfd wanted = {socket, POLLIN, 0};
      constexpr int kMostMs = 20000;
      if (poll(&wanted, 1, kMostMs) <= 0)
        return "timed out; got: " + received;
      char bytes[4096];
      const ssize_t count = recv(socket, bytes, sizeof(bytes), 0);
      if (count <= 0)
        return std::exchange(received, "");
      received.append(bytes, static_cast<size_t>(count));
    }
  }

private:
  int socket;
  std::string received;
};

inline const std::string kPost =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";

inline std::string postOf(const std::string &body,
                          const std::string &header = "") {
  return kPost + "Content-Type: application/json\r\n" + header +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline std::string getOf(const std::string &path) {
  return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n";
}

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A server over a loop, which threads run until the end of the test.
struct HttpFixture {
  explicit HttpFixture(llama::HttpOptions options = {}, int64_t maxQueue = 4)
      : running(engine, maxQueue),
        server(named(options), running.loop, running.metrics),
        thread([this] { server.run(); }) {
    engine.stepTime = 200;
  }
  ~HttpFixture() {
    running.join(0);
    finish();
  }
  void finish() {
    server.finish(std::chrono::seconds(2));
    if (thread.joinable())
      thread.join();
  }
  static llama::HttpOptions named(llama::HttpOptions options) {
    options.model = "stand-in";
    return options;
  }
  std::string ask(const std::string &request) const {
    Connection connection(server.port());
    connection.send(request);
    connection.endSending();
    return connection.receive();
  }
  bool isAtRest() const {
    const llama::ServeGauges gauges = running.loop.gauges();
    return gauges.open == 0 && gauges.engine.pagesInUse == 0;
  }
  bool counts(llama::Outcome outcome, int64_t count) const {
    return comesTrue([&] { return running.metrics.count(outcome) == count; });
  }

  StandInEngine engine;
  RunningLoop running;
  llama::HttpServer server;
  std::thread thread;
};

} // namespace kiln::testing

#endif // KILN_UNITTESTS_EXAMPLES_HTTPFIXTURE_H
