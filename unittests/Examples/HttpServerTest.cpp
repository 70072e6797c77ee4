// The HTTP server on a stand-in of the engine, with raw sockets as clients.
#include "llama/HttpServer.h"

#include "Examples/StandInEngine.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <chrono>
#include <memory>
#include <poll.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace llama;
using kiln::testing::comesTrue;
using kiln::testing::RunningLoop;
using kiln::testing::StandInEngine;

namespace {

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

std::string postOf(const std::string &body, const std::string &header = "") {
  return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
         "application/json\r\n" +
         header + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string getOf(const std::string &path) {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A server over a loop, which threads run until the end of the test.
struct HttpFixture {
  explicit HttpFixture(HttpOptions options = {}, int64_t maxQueue = 4)
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
  static HttpOptions named(HttpOptions options) {
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
    const ServeGauges gauges = running.loop.gauges();
    return gauges.open == 0 && gauges.engine.pagesInUse == 0;
  }
  bool counts(Outcome outcome, int64_t count) const {
    return comesTrue([&] { return running.metrics.count(outcome) == count; });
  }

  StandInEngine engine;
  RunningLoop running;
  HttpServer server;
  std::thread thread;
};

} // namespace

TEST_CASE("a completion, whole and as events, on one connection") {
  HttpFixture f;
  Connection connection(f.server.port());
  connection.send(postOf(R"({"prompt": [7], "max_tokens": 3})"));
  std::string text = connection.receive("}}");
  CHECK(contains(text, "HTTP/1.1 200 OK\r\n"));
  CHECK(contains(text, R"("token_ids":[8,9,10])"));
  CHECK(contains(text, R"("finish_reason":"length")"));
  CHECK(contains(text, R"("completion_tokens":3)"));
  connection.send(
      postOf(R"({"prompt": [7], "max_tokens": 300, "stream": true})"));
  text = connection.receive("data: [DONE]\n\n\r\n0\r\n\r\n");
  CHECK(contains(text, "Content-Type: text/event-stream\r\n"));
  CHECK(contains(text, R"("token_ids":[8)"));
  // The end may be told behind the last token.
  CHECK(contains(text, "50],"));
  CHECK(contains(text, R"("finish_reason":"stop")"));
  CHECK(contains(text, R"("completion_tokens":43)"));
  connection.send(getOf("/health"));
  CHECK(contains(connection.receive("}"), R"({"status":"ready"})"));
  connection.send(getOf("/v1/models"));
  text = connection.receive("]}");
  CHECK(contains(text, R"("id":"stand-in")"));
  CHECK(contains(text, R"("max_model_len":100000)"));
  connection.send(getOf("/metrics"));
  text = connection.receive("# EOF\n");
  CHECK(contains(text,
                 "application/openmetrics-text; version=1.0.0; charset=utf-8"));
  CHECK(contains(text, "kiln_llama_connections 1\n"));
}

TEST_CASE("a client of HTTP/1.0 gets events until the connection ends") {
  HttpFixture f;
  const std::string body =
      R"({"prompt": [7], "max_tokens": 3, "stream": true})";
  Connection connection(f.server.port());
  connection.send("POST /v1/completions HTTP/1.0\r\nContent-Type: "
                  "application/json\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string text = connection.receive();
  CHECK(contains(text, "\r\n\r\ndata: {"));
  CHECK_FALSE(contains(text, "chunked"));
  CHECK(text.substr(text.size() - 14) == "data: [DONE]\n\n");
}

TEST_CASE("requests that are no completion") {
  HttpOptions options;
  options.maxBodyBytes = 1000;
  const HttpFixture f(options);
  const auto status = [&](const std::string &request) {
    Connection connection(f.server.port());
    connection.send(request);
    const std::string text = connection.receive("\r\n\r\n");
    CHECK(contains(connection.receive("}"), "{\"error\":{\"message\":"));
    return text.substr(0, 12);
  };
  CHECK(status(postOf("{}")) == "HTTP/1.1 400");
  CHECK(status("garbage\r\n\r\n") == "HTTP/1.1 400");
  CHECK(status("\x16\x03\x01\x02\x00\x01\xfc\x03\x03\r\n\r\n") ==
        "HTTP/1.1 400");
  CHECK(status(getOf("/nothing")) == "HTTP/1.1 404");
  CHECK(status(getOf("/v1/completions")) == "HTTP/1.1 405");
  CHECK(status("POST /health HTTP/1.1\r\nContent-Length: 0\r\n\r\n") ==
        "HTTP/1.1 405");
  CHECK(status(postOf(std::string(1001, ' '))) == "HTTP/1.1 413");
  CHECK(
      status("POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}") ==
      "HTTP/1.1 415");
  CHECK(status("GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') +
               "\r\n\r\n") == "HTTP/1.1 431");
  // The body of a client that asks first is never sent.
  CHECK(status("POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\n"
               "Content-Length: 1001\r\n\r\n") == "HTTP/1.1 413");
  Connection asking(f.server.port());
  const std::string body = R"({"prompt": [7], "max_tokens": 1})";
  asking.send("POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\n"
              "Content-Type: application/json; charset=utf-8\r\n"
              "Content-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  CHECK(asking.receive("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  asking.send(body);
  CHECK(contains(asking.receive("}}"), "\"token_ids\":[8]"));
}

TEST_CASE("requests that are sent ahead are answered in their order") {
  HttpFixture f;
  Connection connection(f.server.port());
  connection.send(postOf(R"({"prompt": [7], "max_tokens": 20})") +
                  postOf(R"({"prompt": [1], "max_tokens": 1})") +
                  "garbage\n\n");
  const std::string text = connection.receive();
  const size_t first = text.find("\"token_ids\":[8,9,"),
               second = text.find("\"token_ids\":[2]"),
               refusal = text.find("HTTP/1.1 400");
  CHECK(first < second);
  CHECK(second < refusal);
  CHECK(refusal < text.size());
}

TEST_CASE("a client that leaves is noticed, and its pages are freed") {
  HttpFixture f;
  for (const char *stream : {"true", "false"}) {
    CAPTURE(stream);
    const std::string request = postOf(
        std::string(R"({"prompt": [60], "max_tokens": 900, "stream": )") +
        stream + "}");
    const int64_t before = f.running.metrics.count(Outcome::Cancelled);
    {
      Connection connection(f.server.port());
      connection.send(request);
      CHECK(comesTrue([&] { return f.running.loop.gauges().open == 1; }));
    }
    CHECK(f.counts(Outcome::Cancelled, before + 1));
    // One that only ends its side is taken to have left.
    CHECK(f.ask(request).find("\"length\"") == std::string::npos);
    CHECK(f.counts(Outcome::Cancelled, before + 2));
    CHECK(comesTrue([&] { return f.isAtRest(); }));
  }
}

TEST_CASE("a client that does not read loses its stream, and stalls nothing") {
  HttpOptions options;
  SUBCASE("as its tokens pile up") { options.maxStreamTokens = 64; }
  SUBCASE("as a write takes too long") {
    options.maxStreamTokens = 100000;
    options.writeTime = std::chrono::milliseconds(200);
  }
  HttpFixture f(options);
  f.engine.stepTime = 20;
  Connection slow(f.server.port(), 2048);
  slow.send(postOf(R"({"prompt": [60], "max_tokens": 50000, "stream": true})"));
  CHECK(comesTrue([&] { return f.running.loop.gauges().open == 1; }));
  Connection other(f.server.port());
  other.send(postOf(R"({"prompt": [60], "max_tokens": 100})"));
  CHECK(contains(other.receive("}}"), "\"completion_tokens\":100"));
  CHECK(f.counts(Outcome::Slow, 1));
  CHECK(comesTrue([&] { return f.isAtRest(); }));
}

TEST_CASE("the queue, connections and a server that stops") {
  HttpOptions options;
  options.maxConnections = 7;
  HttpFixture f(options, 1);
  f.engine.stepTime = 2000;
  const std::string request = postOf(R"({"prompt": [60], "max_tokens": 400})");
  std::vector<std::unique_ptr<Connection>> open;
  for (int i = 0; i < 5; ++i) {
    open.push_back(std::make_unique<Connection>(f.server.port()));
    open.back()->send(request);
  }
  CHECK(comesTrue([&] { return f.running.loop.gauges().open == 5; }));
  Connection beyond(f.server.port()), idle(f.server.port());
  beyond.send(request);
  const std::string full = beyond.receive("}}");
  CHECK(contains(full, "HTTP/1.1 429 Too Many Requests\r\n"));
  CHECK(contains(full, "Retry-After: 1\r\n"));
  CHECK(contains(full, "\"code\":\"queue_full\""));
  Connection tooMany(f.server.port());
  CHECK(contains(tooMany.receive(), "the server has too many connections"));
  // Open requests are cancelled, and told so; idle connections are closed.
  f.running.join(0);
  beyond.send(request);
  CHECK(contains(beyond.receive("}}"), "\"code\":\"draining\""));
  beyond.send(getOf("/health"));
  CHECK(contains(beyond.receive("}"), "draining"));
  for (const auto &connection : open)
    CHECK(
        contains(connection->receive("}}"), "\"finish_reason\":\"cancelled\""));
  f.finish();
  CHECK(idle.receive().empty());
}

TEST_CASE("a lost device is told to every client") {
  HttpFixture f;
  Connection whole(f.server.port()), events(f.server.port());
  whole.send(postOf(R"({"prompt": [60], "max_tokens": 900})"));
  events.send(postOf(R"({"prompt": [60], "max_tokens": 900, "stream": true})"));
  events.receive("data: {");
  f.engine.isLost = true;
  const std::string answer = whole.receive("}}");
  CHECK(contains(answer, "HTTP/1.1 503"));
  CHECK(contains(answer, "the stand-in is lost"));
  CHECK(
      contains(events.receive("data: [DONE]\n\n"), "\"code\":\"device_lost\""));
  whole.send(getOf("/health"));
  CHECK(contains(whole.receive("}"), "lost"));
}

TEST_CASE("bytes that arrive slowly or not at all are given up") {
  HttpOptions options;
  options.headerTime = options.bodyTime = std::chrono::milliseconds(100);
  const HttpFixture f(options);
  Connection silent(f.server.port()), header(f.server.port()),
      body(f.server.port());
  header.send("POST /v1/completions HTTP/1.1\r\nHost");
  body.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{");
  for (Connection *connection : {&silent, &header, &body})
    CHECK(connection->receive().empty());
}

TEST_CASE("addresses that others may reach are refused, and ports in use") {
  ServeMetrics metrics;
  EngineLoop loop(metrics, 4);
  HttpOptions options;
  options.host = "0.0.0.0";
  CHECK_THROWS_WITH_AS(HttpServer(options, loop, metrics),
                       doctest::Contains("--listen-anywhere allows it"), Error);
  options.host = "localhost";
  CHECK_THROWS_WITH_AS(HttpServer(options, loop, metrics),
                       doctest::Contains("expected an IP address"), Error);
  options.host = "127.0.0.1";
  const HttpServer first(options, loop, metrics);
  options.port = first.port();
  CHECK_THROWS_WITH_AS(HttpServer(options, loop, metrics),
                       doctest::Contains("Address already in use"), Error);
  // A server that never ran is destroyed.
}

TEST_CASE("fuzz: bytes that are nearly requests") {
  HttpOptions options;
  options.headerTime = options.bodyTime = std::chrono::milliseconds(200);
  HttpFixture f(options);
  f.engine.stepTime = 0;
  const std::string seeds[] = {
      postOf(R"({"prompt": [1, 2], "max_tokens": 2, "stream": true})"),
      postOf(R"({"prompt": [1, 2], "max_tokens": 2})", "Connection: close\r\n"),
      getOf("/metrics"),
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
      "Content-Type: application/json\r\n\r\n5\r\n{\"pro\r\n0\r\n\r\n"};
  std::mt19937_64 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string bytes = seeds[random() % 4] + seeds[random() % 4];
    for (auto edits = random() % 4; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    Connection connection(f.server.port());
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = 1 + random() % bytes.size();
      if (!connection.send(bytes.substr(at, count)))
        break;
      at += count;
    }
    if (i % 2 == 0)
      connection.endSending();
    if (i % 3 == 0)
      connection.receive("\r\n");
  }
  CHECK(comesTrue([&] { return f.isAtRest(); }));
  CHECK(contains(f.ask(getOf("/health") + getOf("/health")), "ready"));
}
