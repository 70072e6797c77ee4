// Requests that the parser of HTTP lets pass and the server refuses.
#include "Examples/HttpFixture.h"

#include <doctest/doctest.h>

#include <string>

using namespace llama;
using namespace kiln::testing;

TEST_CASE("what the parser does not bound has a bound") {
  const HttpFixture f;
  for (const char *start : {"1;", "0;", "0\r\nX: "}) {
    CAPTURE(start);
    Connection connection(f.server.port());
    connection.send(kPost + "Transfer-Encoding: chunked\r\n\r\n" + start);
    // No line ends, and time does not end it.
    connection.send(std::string(1 << 20, 'a'));
    const std::string text = connection.receive("}}");
    CHECK(contains(text, "HTTP/1.1 431"));
    CHECK(contains(text, "trailer_too_large"));
  }
  Connection trailing(f.server.port());
  trailing.send(kPost + "Content-Type: application/json\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n22;a=b\r\n"
                        R"({"prompt": [7],   "max_tokens": 1})"
                        "\r\n0\r\nX: a\r\n\r\n");
  CHECK(contains(trailing.receive("}}"), "\"token_ids\":[8]"));
}

TEST_CASE("a body that a proxy would end elsewhere is no request") {
  const HttpFixture f;
  const std::string hidden = getOf("/health");
  const auto answer = [&](const std::string &fields) {
    return f.ask(fields + "\r\n" + hidden);
  };
  for (const char *coding : {"gzip", "xchunked", "chunked, gzip", "\x01"})
    for (const char *length : {"", "Content-Length: 5\r\n"}) {
      CAPTURE(coding);
      CAPTURE(length);
      const std::string text =
          answer(kPost + "Transfer-Encoding: " + coding + "\r\n" + length);
      CHECK(contains(text, "HTTP/1.1 400"));
      CHECK_FALSE(contains(text, "ready"));
    }
  CHECK(contains(answer("POST /health HTTP/1.0\r\n"
                        "Transfer-Encoding: chunked\r\n"),
                 "HTTP/1.1 400"));
}

TEST_CASE("a loopback address takes no host that a stranger may have named") {
  const auto status = [](const HttpFixture &f, const std::string &fields) {
    return f.ask("GET /health HTTP/1.1\r\n" + fields + "\r\n").substr(0, 12);
  };
  {
    const HttpFixture f;
    for (const char *host : {"localhost", "LocalHost:8000", "127.0.0.1",
                             "127.0.0.1:8000", "[::1]:8000", "[::1]"})
      CHECK(status(f, std::string("Host: ") + host + "\r\n") == "HTTP/1.1 200");
    for (const char *host : {"evil.example", "evil.example:8000", "", ":80",
                             "127.0.0.1.evil.example", "[evil", "localhost."})
      CHECK(status(f, std::string("Host: ") + host + "\r\n") == "HTTP/1.1 421");
    CHECK(status(f, "") == "HTTP/1.1 400");
    CHECK(status(f, "Host: localhost\r\nHost: localhost\r\n") ==
          "HTTP/1.1 400");
    // HTTP/1.0 need not have any.
    CHECK(f.ask("GET /health HTTP/1.0\r\n\r\n").substr(0, 12) ==
          "HTTP/1.0 200");
  }
  HttpOptions options;
  options.allowsAnyHost = true;
  const HttpFixture f(options);
  CHECK(status(f, "Host: kiln.example\r\n") == "HTTP/1.1 200");
  CHECK(status(f, "") == "HTTP/1.1 400");
}
