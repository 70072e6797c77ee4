//===- CompletionRequest.cpp ----------------------------------------------===//
#include "CompletionRequest.h"

#include "Json.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace llama {

namespace {

using Json = nlohmann::json;

constexpr int kBadRequest = 400;
constexpr size_t kMostStopTokens = 64;

[[noreturn]] void refuse(const std::string &field, const std::string &message,
                         const char *code = "invalid_value") {
  throw ApiError(kBadRequest, message, field, code);
}

[[noreturn]] void refuseValue(const std::string &field, const Json &value,
                              const std::string &expected) {
  refuse(field, field + " is " + shown(value) + ", expected " + expected);
}

std::string rangeText(const std::string &what, int64_t least, int64_t most) {
  return what + " of " + std::to_string(least) +
         (most == std::numeric_limits<int64_t>::max()
              ? " or more"
              : " to " + std::to_string(most));
}

/// \p value as an integer in a range; nothing if it is anything else.
std::optional<int64_t> integerOf(const Json &value, int64_t least,
                                 int64_t most) {
  // Unsigned ones are integers, too, and may be beyond int64_t.
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() >
           static_cast<uint64_t>(std::numeric_limits<int64_t>::max())))
    return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < least || number > most)
    return std::nullopt;
  return number;
}

/// The fields of an object. A field that is null is as if it were not there.
class Fields {
public:
  explicit Fields(const Json &object) : object(object) {}

  const Json *find(const char *name) const {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  int64_t integer(const char *name, int64_t byDefault, int64_t least,
                  int64_t most = std::numeric_limits<int64_t>::max()) const {
    const Json *value = find(name);
    if (!value)
      return byDefault;
    const auto number = integerOf(*value, least, most);
    if (!number)
      refuseValue(name, *value, rangeText("an integer", least, most));
    return *number;
  }

  float real(const char *name, float byDefault, float most) const {
    const Json *value = find(name);
    if (!value)
      return byDefault;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0 && number <= double(most)))
      refuseValue(name, *value,
                  rangeText("a number", 0, static_cast<int64_t>(most)));
    return static_cast<float>(number);
  }

  bool boolean(const char *name) const {
    const Json *value = find(name);
    if (value && !value->is_boolean())
      refuseValue(name, *value, "true or false");
    return value && value->get<bool>();
  }

private:
  const Json &object;
};

/// The token ids of an array. Those outside of the vocabulary are found with
/// the other rules of requests.
std::vector<int32_t> tokensOf(const char *field, const Json &array) {
  std::vector<int32_t> tokens;
  tokens.reserve(array.size());
  for (const Json &element : array) {
    const auto token = integerOf(element, std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int32_t>::max());
    if (!token)
      refuse(field, std::string(field) + " has " + shown(element) +
                        ", expected token ids, which are integers");
    tokens.push_back(static_cast<int32_t>(*token));
  }
  return tokens;
}

std::vector<int32_t> promptOf(const Fields &fields) {
  const Json *prompt = fields.find("prompt");
  if (!prompt)
    refuse("prompt", "prompt is missing: an array of token ids is required",
           "missing_required_parameter");
  if (prompt->is_string())
    refuse("prompt",
           "prompt is text, but this server has no tokenizer: send an array of "
           "token ids",
           "no_tokenizer");
  if (!prompt->is_array())
    refuseValue("prompt", *prompt, "an array of token ids");
  if (!prompt->empty() &&
      (prompt->front().is_array() || prompt->front().is_string()))
    refuse("prompt", "prompt has several prompts or text: send one array of "
                     "token ids in each request");
  return tokensOf("prompt", *prompt);
}

std::set<int32_t> stopTokensOf(const Fields &fields, int64_t vocabSize) {
  const char *name = "stop_token_ids";
  const Json *ids = fields.find(name);
  if (!ids)
    return {};
  if (!ids->is_array() || ids->size() > kMostStopTokens)
    refuseValue(name, *ids,
                "an array of " + std::to_string(kMostStopTokens) +
                    " token ids at most");
  const std::vector<int32_t> tokens = tokensOf(name, *ids);
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabSize)
      refuse(name, "stop_token_ids has " + std::to_string(token) +
                       ", expected 0 to " + std::to_string(vocabSize - 1));
  return {tokens.begin(), tokens.end()};
}

/// -1 is all tokens for other servers, 0 for Kiln's sampler.
SamplingParameters samplingOf(const Fields &fields, CompletionRequest &into) {
  constexpr float kMostTemperature = 2;
  SamplingParameters sampling;
  sampling.temperature = fields.real("temperature", 1, kMostTemperature);
  sampling.topP = fields.real("top_p", 1, 1);
  sampling.topK = static_cast<int32_t>(std::max<int64_t>(
      fields.integer("top_k", 0, -1, std::numeric_limits<int32_t>::max()), 0));
  if (const Json *seed = fields.find("seed")) {
    if (!seed->is_number_integer())
      refuseValue("seed", *seed, "an integer");
    sampling.seed = seed->is_number_unsigned()
                        ? seed->get<uint64_t>()
                        : static_cast<uint64_t>(seed->get<int64_t>());
    into.hasSeed = true;
  }
  return sampling;
}

/// Fields that are not built, with the values that change nothing.
void requireNoOthers(const Fields &fields) {
  const std::pair<const char *, Json> kNeutral[] = {
      {"n", 1},
      {"best_of", 1},
      {"echo", false},
      {"frequency_penalty", 0},
      {"logit_bias", Json::object()},
      {"logprobs", false},
      {"min_p", 0},
      {"presence_penalty", 0},
      {"repetition_penalty", 1},
      {"stop", Json::array()},
      {"suffix", ""},
  };
  for (const auto &[name, neutral] : kNeutral)
    if (const Json *value = fields.find(name); value && *value != neutral)
      refuse(name,
             std::string(name) + " is " + shown(*value) +
                 ", but this server has only " + neutral.dump(),
             "unsupported_value");
}

} // namespace

CompletionRequest parseCompletion(std::string_view body,
                                  const RequestRoom &room) {
  Json json;
  try {
    json = parseJson(body, "the body");
  } catch (const Error &error) {
    throw ApiError(kBadRequest, error.what(), "", "invalid_json");
  }
  if (!json.is_object())
    throw ApiError(kBadRequest,
                   "the body is " + shown(json) + ", expected an object", "",
                   "invalid_json");
  const Fields fields(json);
  constexpr int64_t kDefaultTokens = 16; // as in OpenAI's interface
  CompletionRequest result;
  result.request.prompt = promptOf(fields);
  result.request.maxNewTokens = fields.integer("max_tokens", kDefaultTokens, 1);
  result.request.sampling = samplingOf(fields, result);
  result.streams = fields.boolean("stream");
  result.ignoresEnds = fields.boolean("ignore_eos");
  result.stopTokens = stopTokensOf(fields, room.vocabSize);
  requireNoOthers(fields);
  try {
    requireRunnable(result.request, room);
  } catch (const RefusedRequest &error) {
    throw ApiError(kBadRequest, error.what(), error.field, error.code);
  }
  return result;
}

} // namespace llama
