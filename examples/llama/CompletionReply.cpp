//===- CompletionReply.cpp ------------------------------------------------===//
#include "CompletionReply.h"

#include "Json.h"

namespace llama {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kBadRequest = 400, kTooMany = 429, kFailed = 500,
              kUnavailable = 503;

Json choiceOf(const std::vector<int32_t> &tokens, const Json &finishReason) {
  return {{"index", 0},
          {"text", ""},
          {"token_ids", tokens},
          {"logprobs", nullptr},
          {"finish_reason", finishReason}};
}

Json completion(const std::string &id, const std::string &model,
                int64_t created, const Json &choice) {
  return {{"id", id},
          {"object", "text_completion"},
          {"created", created},
          {"model", model},
          {"choices", Json::array({choice})}};
}

const char *finishReason(Outcome outcome) {
  switch (outcome) {
  case Outcome::Stop:
    return "stop";
  case Outcome::Length:
    return "length";
  default:
    return "cancelled";
  }
}

} // namespace

std::string CompletionReply::last(const std::vector<int32_t> &tokens,
                                  int64_t allTokens, Outcome outcome) const {
  Json json =
      completion(id, model, created, choiceOf(tokens, finishReason(outcome)));
  json["usage"] = {{"prompt_tokens", promptTokens},
                   {"completion_tokens", allTokens},
                   {"total_tokens", promptTokens + allTokens}};
  return toText(json);
}

std::string CompletionReply::part(const std::vector<int32_t> &tokens) const {
  return toText(completion(id, model, created, choiceOf(tokens, nullptr)));
}

std::string eventOf(const std::string &data) {
  return "data: " + data + "\n\n";
}

bool isCompletion(Outcome outcome) {
  return outcome == Outcome::Stop || outcome == Outcome::Length ||
         outcome == Outcome::Cancelled;
}

ApiError errorOf(const Ending &ending) {
  switch (ending.outcome) {
  case Outcome::Refused:
    return {kBadRequest, ending.message, "", "invalid_value"};
  case Outcome::Lost:
    return {kUnavailable,
            "the device is lost, and the tokens with it: send the request "
            "again to a new server (" +
                ending.message + ")",
            "", "device_lost"};
  default:
    return {kFailed, ending.message, "", "step_failed"};
  }
}

ApiError errorOf(EngineState state) {
  switch (state) {
  case EngineState::Lost:
    return {kUnavailable, "the device is lost to this server", "",
            "device_lost"};
  case EngineState::Loading:
    return {kUnavailable, "the server is loading its model", "", "loading"};
  default:
    return {kUnavailable, "the server is stopping", "", "draining"};
  }
}

ApiError errorOfFullQueue() {
  return {kTooMany, "the queue of requests is full: try again later", "",
          "queue_full"};
}

const char *nameOf(EngineState state) {
  switch (state) {
  case EngineState::Loading:
    return "loading";
  case EngineState::Ready:
    return "ready";
  case EngineState::Draining:
    return "draining";
  case EngineState::Lost:
    return "lost";
  }
  return "";
}

} // namespace llama
