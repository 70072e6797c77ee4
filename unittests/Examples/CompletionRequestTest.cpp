#include "llama/CompletionRequest.h"

#include "llama/CompletionReply.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>

using namespace llama;
using nlohmann::json;

namespace {

/// 64 positions of a vocabulary of 100, and 3 pages of 16 tokens.
constexpr RequestRoom kSmallRoom{64, 100, 3, 16};

CompletionRequest parsedBody(const std::string &body) {
  return parseCompletion(body, kSmallRoom);
}

/// The error that a body is refused with.
json bodyRefusal(const std::string &body) {
  try {
    parsedBody(body);
  } catch (const ApiError &error) {
    CHECK(error.status() == 400);
    return json::parse(error.toJson())["error"];
  }
  FAIL_CHECK("accepted: " << body);
  return {{"message", ""}, {"param", ""}, {"code", ""}};
}

} // namespace

TEST_CASE("the fields of a completion, and their defaults") {
  const CompletionRequest least = parsedBody(R"({"prompt": [5, 6]})");
  CHECK(least.request.prompt == std::vector<int32_t>{5, 6});
  CHECK(least.request.maxNewTokens == 16);
  CHECK(least.request.sampling.temperature == 1);
  CHECK(least.request.sampling.topP == 1);
  CHECK(least.request.sampling.topK == 0);
  CHECK_FALSE(least.hasSeed);
  CHECK_FALSE(least.streams);
  CHECK_FALSE(least.ignoresEnds);
  CHECK(least.stopTokens.empty());

  const CompletionRequest all = parsedBody(
      R"({"model": "x", "prompt": [1], "max_tokens": 7, "temperature": 0.5,
          "top_p": 0.25, "top_k": 9, "seed": 18446744073709551615,
          "stream": true, "stop_token_ids": [3, 4, 3], "ignore_eos": true,
          "n": 1, "unknown": {"is": "ignored"}, "logprobs": null,
          "stop": [], "frequency_penalty": 0.0})");
  CHECK(all.request.maxNewTokens == 7);
  CHECK(all.request.sampling.temperature == 0.5f);
  CHECK(all.request.sampling.topP == 0.25f);
  CHECK(all.request.sampling.topK == 9);
  CHECK(all.request.sampling.seed == UINT64_MAX);
  CHECK(all.hasSeed);
  CHECK(all.streams);
  CHECK(all.ignoresEnds);
  CHECK(all.stopTokens == std::set<int32_t>{3, 4});
  CHECK(parsedBody(R"({"prompt": [1], "top_k": -1})").request.sampling.topK ==
        0);
  CHECK(parsedBody(R"({"prompt": [1], "seed": -1})").request.sampling.seed ==
        UINT64_MAX);
}

TEST_CASE("bodies that are refused, with the field and the reason") {
  struct Case {
    const char *body, *param, *message;
  };
  const Case cases[] = {
      {R"({})", "prompt", "prompt is missing"},
      {R"({"prompt": null})", "prompt", "prompt is missing"},
      {R"({"prompt": "text"})", "prompt", "no tokenizer"},
      {R"({"prompt": ["text"]})", "prompt", "several prompts or text"},
      {R"({"prompt": [[1], [2]]})", "prompt", "several prompts"},
      {R"({"prompt": 5})", "prompt", "prompt is 5, expected an array"},
      {R"({"prompt": []})", "prompt", "an empty prompt"},
      {R"({"prompt": [1, 1.5]})", "prompt", "prompt has 1.5"},
      {R"({"prompt": [true]})", "prompt", "prompt has true"},
      {R"({"prompt": [-1]})", "prompt", "token -1, expected 0 to 99"},
      {R"({"prompt": [100]})", "prompt", "token 100, expected 0 to 99"},
      {R"({"prompt": [4294967296]})", "prompt", "prompt has 4294967296"},
      {R"({"prompt": [18446744073709551615]})", "prompt", "prompt has 184"},
      {R"({"prompt": [1], "max_tokens": 0})", "max_tokens",
       "max_tokens is 0, expected an integer of 1 or more"},
      {R"({"prompt": [1], "max_tokens": "9"})", "max_tokens", "is \"9\""},
      {R"({"prompt": [1], "max_tokens": 2.0})", "max_tokens", "is 2.0"},
      {R"({"prompt": [1], "max_tokens": 64})", "max_tokens",
       "a prompt of 1 tokens with 64 new ones exceeds 64 positions"},
      {R"({"prompt": [1], "max_tokens": 9223372036854775807})", "max_tokens",
       "exceeds 64 positions"},
      {R"({"prompt": [1], "max_tokens": 9223372036854775808})", "max_tokens",
       "expected an integer"},
      {R"({"prompt": [1], "max_tokens": 60})", "max_tokens",
       "needs 4 pages, but the pool has 3"},
      {R"({"prompt": [1], "temperature": -1})", "temperature", "is -1"},
      {R"({"prompt": [1], "temperature": 2.5})", "temperature",
       "expected a number of 0 to 2"},
      {R"({"prompt": [1], "temperature": true})", "temperature", "is true"},
      {R"({"prompt": [1], "top_p": 0})", "top_p", "a top-p of 0"},
      {R"({"prompt": [1], "top_p": 1.1})", "top_p", "is 1.1"},
      {R"({"prompt": [1], "top_k": -2})", "top_k", "is -2"},
      {R"({"prompt": [1], "seed": 0.5})", "seed", "is 0.5"},
      {R"({"prompt": [1], "stream": 1})", "stream", "true or false"},
      {R"({"prompt": [1], "ignore_eos": "no"})", "ignore_eos", "is \"no\""},
      {R"({"prompt": [1], "stop_token_ids": 4})", "stop_token_ids", "is 4"},
      {R"({"prompt": [1], "stop_token_ids": [100]})", "stop_token_ids",
       "has 100, expected 0 to 99"},
      {R"({"prompt": [1], "n": 2})", "n", "this server has only 1"},
      {R"({"prompt": [1], "echo": true})", "echo", "only false"},
      {R"({"prompt": [1], "stop": "\n"})", "stop", "only []"},
      {R"({"prompt": [1], "presence_penalty": 0.5})", "presence_penalty",
       "is 0.5"},
  };
  for (const Case &wrong : cases) {
    CAPTURE(wrong.body);
    const json error = bodyRefusal(wrong.body);
    CHECK(error["param"] == wrong.param);
    CHECK(error["type"] == "invalid_request_error");
    const std::string message = error["message"];
    CAPTURE(message);
    CHECK(message.find(wrong.message) != std::string::npos);
  }
  for (const char *body :
       {"", "null", "[]", "5", "{", "{\"prompt\": [1]} x", "{\"prompt\": [1,]}",
        "{\"prompt\": [1], \"prompt\": [2]}", "{\"prompt\": [1e999]}",
        "\xff\xfe", "{\"prompt\": [1], \"\xff\": 1}"}) {
    CAPTURE(body);
    CHECK(bodyRefusal(body)["code"] == "invalid_json");
  }
  CHECK(bodyRefusal(R"({"prompt": [1], "max_tokens": 64})")["code"] ==
        "context_length_exceeded");
  const std::string deep(100000, '[');
  CHECK(bodyRefusal("{\"prompt\": " + deep)["code"] == "invalid_json");
}

TEST_CASE("fuzz: bodies are parsed or refused with an error") {
  const std::string seeds[] = {
      R"({"prompt": [1, 2, 3], "max_tokens": 5, "temperature": 0.5})",
      R"({"prompt": [99], "stream": true, "stop_token_ids": [1, 2], "n": 1})",
      R"({"prompt": [0], "seed": -5, "top_k": 3, "top_p": 1e-3, "x": "é"})"};
  const std::string alphabet = "{}[]\",:-+.eE0123456789tfn \\u\xc3\xff\n";
  std::mt19937_64 random(11);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string body = seeds[random() % 3];
    for (auto edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % body.size();
      const char other = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
      case 0:
        body[at] = other;
        break;
      case 1:
        body.insert(at, 1, other);
        break;
      case 2:
        body.erase(at, 1 + random() % 3);
        break;
      default:
        body.insert(at, body.substr(random() % body.size(), random() % 20));
      }
      if (body.empty())
        body = "{";
    }
    try {
      const CompletionRequest request = parsedBody(body);
      requireRunnable(request.request, kSmallRoom);
      ++accepted;
    } catch (const ApiError &error) {
      CHECK(json::parse(error.toJson()).contains("error"));
    }
  }
  CHECK(accepted > 100);
}

TEST_CASE("the objects of an answer") {
  const CompletionReply reply("cmpl-1", "a model", 1234, 7);
  const json whole = json::parse(reply.last({1, 2}, 2, Outcome::Stop));
  CHECK(whole["object"] == "text_completion");
  CHECK(whole["id"] == "cmpl-1");
  CHECK(whole["model"] == "a model");
  CHECK(whole["created"] == 1234);
  CHECK(whole["choices"][0]["token_ids"] == json({1, 2}));
  CHECK(whole["choices"][0]["finish_reason"] == "stop");
  CHECK(whole["usage"] == json({{"prompt_tokens", 7},
                                {"completion_tokens", 2},
                                {"total_tokens", 9}}));
  const json part = json::parse(reply.part({3}));
  CHECK(part["choices"][0]["token_ids"] == json::array({3}));
  CHECK(part["choices"][0]["finish_reason"].is_null());
  CHECK_FALSE(part.contains("usage"));
  // Names and messages may have bytes that are no UTF-8.
  const CompletionReply odd("x", "\xff", 0, 1);
  CHECK(json::parse(odd.part({}))["model"] == "\xef\xbf\xbd");
  CHECK(json::parse(ApiError(503, "\xff").toJson())["error"]["type"] ==
        "server_error");
}
