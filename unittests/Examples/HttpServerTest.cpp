// The HTTP server on a stand-in of the engine, with raw sockets as clients.
#include "Examples/HttpFixture.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace llama;
using namespace kiln::testing;

namespace {

/// Requests whose first token has arrived.
int firstTokens(const ServeMetrics &metrics) {
  const std::string name = "time_to_first_token_seconds_count ";
  const std::string text = metrics.text({}, "");
  return std::stoi(text.substr(text.find(name) + name.size()));
}

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
  CHECK(status("POST /health HTTP/1.1\r\nHost: localhost\r\n"
               "Content-Length: 0\r\n\r\n") == "HTTP/1.1 405");
  CHECK(status(postOf(std::string(1001, ' '))) == "HTTP/1.1 413");
  CHECK(status(kPost + "Content-Length: 2\r\n\r\n{}") == "HTTP/1.1 415");
  CHECK(status("GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') +
               "\r\n\r\n") == "HTTP/1.1 431");
  // The body of a client that asks first is never sent.
  CHECK(
      status(kPost + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n") ==
      "HTTP/1.1 413");
  Connection asking(f.server.port());
  const std::string body = R"({"prompt": [7], "max_tokens": 1})";
  asking.send(kPost +
              "Expect: 100-continue\r\n"
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

TEST_CASE("a large request that is sent ahead cancels nothing") {
  HttpFixture f;
  f.engine.stepTime = 2000;
  const std::string second = postOf(R"({"prompt": [1], "max_tokens": 1})" +
                                    std::string(300 << 10, ' '));
  for (const char *stream : {"true", "false"}) {
    Connection connection(f.server.port());
    connection.send(postOf(R"({"prompt": [60], "max_tokens": 100, "stream": )" +
                           std::string(stream) + "}") +
                    second);
    CHECK(contains(connection.receive("\"completion_tokens\":100"),
                   "\"finish_reason\":\"length\""));
    CHECK(contains(connection.receive("\"completion_tokens\":1,"),
                   "\"token_ids\":[2]"));
  }
  CHECK(f.running.metrics.count(Outcome::Cancelled) == 0);
}

TEST_CASE("an exception in a handler ends no server") {
  HttpFixture f;
  // Metrics are told without the engine's.
  f.engine.onMetrics = [] { throw std::runtime_error("no memory"); };
  CHECK(contains(f.ask(getOf("/metrics")), "kiln_llama_connections 1\n"));
  f.server.onSignal([] { throw std::runtime_error("no luck"); });
  raise(SIGTERM);
  CHECK(contains(f.ask(getOf("/health")), "ready"));
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
  CHECK(comesTrue([&] { return firstTokens(f.running.metrics) == 4; }));
  // Open requests are cancelled, and told so; one that waited for its turn may
  // go elsewhere; idle connections are closed.
  f.running.join(0);
  beyond.send(request);
  CHECK(contains(beyond.receive("}}"), "\"code\":\"draining\""));
  beyond.send(getOf("/health"));
  CHECK(contains(beyond.receive("}"), "draining"));
  int cancelled = 0, unbegun = 0;
  for (const auto &connection : open) {
    const std::string text = connection->receive("}}");
    cancelled += contains(text, "\"finish_reason\":\"cancelled\"");
    unbegun += contains(text, "HTTP/1.1 503") && contains(text, "draining");
  }
  CHECK(cancelled == 4);
  CHECK(unbegun == 1);
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
  body.send(kPost + "Content-Length: 9\r\n\r\n{");
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
      kPost + "Transfer-Encoding: chunked\r\n"
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
