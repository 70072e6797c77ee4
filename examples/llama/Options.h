//===- Options.h - the command line ---------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_OPTIONS_H
#define KILN_EXAMPLES_LLAMA_OPTIONS_H

#include "Checkpoint.h"
#include "ModelConfig.h"
#include "Ranks.h"
#include "Runner.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace llama {

/// Options "--name value" and flags "--name" of a command. Each one has to be
/// asked for: requireNoOthers() refuses what nothing asked for.
class Options {
public:
  Options(int count, char **words);

  std::string text(const std::string &name, const std::string &byDefault = "");
  /// A whole number of \p least or more. Throws Error for others.
  int64_t number(const std::string &name, int64_t byDefault, int64_t least = 0);
  /// A finite number of 0 or more. Throws Error for others.
  double real(const std::string &name, double byDefault);
  bool flag(const std::string &name);
  /// Throws Error for an option that the command does not have.
  void requireNoOthers() const;

private:
  const std::string *find(const std::string &name);

  std::map<std::string, std::string> given;
  std::set<std::string> asked;
};

/// A model and its weights: --model NAME|FOLDER or --config FILE (random
/// weights), --layers N, --seed S, --weights TYPE, --head TYPE.
struct ChosenModel {
  ModelConfig config;
  std::string configText; ///< its config.json
  std::unique_ptr<Checkpoint> checkpoint;
  WeightSource source;
};
ChosenModel chooseModel(Options &options);

/// The options of a runner that the command line has; \p mode is the default of
/// preparing.
RunnerOptions runnerOptions(Options &options, const char *mode = "tune");

/// The ranks of a command: --tp N, --devices 0,1,..., --allreduce kiln|nccl,
/// --nccl FILE; --rank and --rank-socket are of the processes that a rank 0
/// starts. Without --tp there may be more devices than one. Throws Error if \p
/// model cannot be divided.
RankOptions rankOptions(Options &options, const ModelConfig &model);

/// A bar on stderr, or a line for each stage where that is no terminal.
Progress progressBar();
/// The same at rank 0; others say nothing.
Progress progressOf(const Ranks &ranks);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_OPTIONS_H
