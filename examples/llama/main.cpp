//===- main.cpp - kiln-llama ----------------------------------------------===//
#include "Commands.h"
#include "Error.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <kiln/kiln.hpp>

namespace {

constexpr int kFailed = 1, kWrongUse = 2, kNoGpu = 3, kLost = 4;

constexpr const char *kHelp =
    R"(kiln-llama: a small LLM serving engine on Kiln

  kiln-llama bench     serve a synthetic workload, and report
  kiln-llama serve     answer HTTP requests for completions, by token ids
  kiln-llama lockstep  run blocks of steps that stdin asks for (JSON lines)
  kiln-llama logits    write the logits of token lists
  kiln-llama export    write config.json and bf16 weights for transformers

Models: --model NAME (a preset, or NAME-N-layers, the first N layers of one),
--model FOLDER (config.json, safetensors), or --config FILE (random weights);
--layers N cuts a preset, --seed S draws its weights.
Types: --weights bf16|fp8|fp8-block|w8|w4|mxfp4 quantises weights that are not;
--head bf16|e4m3, --kv-cache bf16|e4m3.
Room: --token-budget, --max-sequences, --max-positions, --page-tokens, --pages.
Kiln: --mode tune|predict (of preparing), --prepare-budget SECONDS,
--cache-dir, --nvrtc, --no-strict, --no-graphs.
GPUs: --tp N (tensor parallelism, a process each), --devices 0,1,...,
--allreduce kiln|nccl, --nccl FILE; bench without --tp has an engine on each of
--devices.
bench: --sequences N --prompt N --new N (all at once), or --rate R (Poisson)
with --requests N, medians --prompt N --new N, --most-prompt N, --most-new N,
--shared-prefix N; --workload-seed S, --no-shared-prefixes, --json FILE, --ends
(end tokens end a sequence).
serve: --port N (0: any, which it prints), --host ADDRESS (a loopback one
unless --listen-anywhere: there is neither TLS nor authentication), --max-queue
N (requests beyond --max-sequences), --max-connections N, --max-body-bytes N,
--stream-tokens N (that a slow client may fall behind), --header-seconds S,
--body-seconds S, --write-seconds S, --drain-seconds S (at SIGINT and SIGTERM),
--lost-seconds S (for /health, after the device is lost),
--no-shared-prefixes. Prompts and completions are token ids: there is no
tokenizer.
lockstep: --batch N --context N --tokens N --cache-tokens N (the room).
logits: --tokens FILE --out FILE [--chunk N] [--one-by-one].
export: --out FOLDER.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 no GPU, 4 the device is lost.
)";

struct Command {
  const char *name;
  int (*run)(llama::Options &options);
};
constexpr Command kCommands[] = {{"bench", llama::benchCommand},
                                 {"serve", llama::serveCommand},
                                 {"lockstep", llama::lockstepCommand},
                                 {"logits", llama::logitsCommand},
                                 {"export", llama::exportCommand}};

int run(int count, char **words) {
  if (count < 2) {
    std::fputs(kHelp, stderr);
    return kWrongUse;
  }
  // Also behind a command.
  const auto isHelp = [](const char *word) {
    return std::strcmp(word, "--help") == 0;
  };
  if (std::any_of(words + 1, words + count, isHelp)) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  for (const Command &command : kCommands)
    if (std::strcmp(words[1], command.name) == 0) {
      llama::Options options(count - 2, words + 2);
      return command.run(options);
    }
  std::fprintf(stderr, "kiln-llama: no command '%s'; see --help\n", words[1]);
  return kWrongUse;
}

} // namespace

int main(int count, char **words) {
  auto fail = [](int code, const char *message) {
    std::fprintf(stderr, "kiln-llama: %s\n", message);
    return code;
  };
  auto lost = [&](const char *message) {
    std::fprintf(stderr,
                 "kiln-llama: %s; the device is lost to this process: start "
                 "it again, and send again what was lost\n",
                 message);
    return kLost;
  };
  try {
    return run(count, words);
  } catch (const llama::NoGpu &error) {
    return fail(kNoGpu, error.what());
  } catch (const llama::DeviceLost &error) {
    return lost(error.what());
  } catch (const kiln::Error &error) {
    return error.code() == KILN_CONTEXT_DEAD ? lost(error.what())
                                             : fail(kFailed, error.what());
  } catch (const std::exception &error) {
    return fail(kFailed, error.what());
  }
}
