#include "Choice/Chooser.h"

#include "Choice/ChooserFixture.h"
#include "Tune/CompileOrder.h"

using namespace kiln;
using namespace kiln::fake;

TEST_CASE("without anything stored the ranking is offered") {
  ChooserFixture f;
  CHECK(f.stored().empty());
  CHECK(f.offered(ChoiceStep::Loaded).empty());
  Texts all = f.offered(ChoiceStep::Existing);
  REQUIRE(all.size() == 8);
  CHECK(all[0] == "fast.t64");
  CHECK(f.offered(ChoiceStep::Close) == Texts{"fast.t64"});
  // The generic config is far slower, so it is compiled last.
  Texts tried = f.offered(ChoiceStep::Compile);
  CHECK(tried.back() == "plain.t32");
  llvm::erase(all, "plain.t32");
  all.push_back("plain.t32");
  CHECK(tried == all);
}

TEST_CASE("where generic kernels are not far slower few others are compiled") {
  ChooserFixture f;
  f.family.options.predictNs = [](const std::string &config) {
    return config == "fast.t64" ? 1000 : config == "plain.t32" ? 8000 : 2000;
  };
  const Texts all = f.offered(ChoiceStep::Existing);
  Texts tried = f.offered(ChoiceStep::Compile);
  REQUIRE(tried.size() >= kCompileAttempts);
  CHECK(Texts(tried.begin(), tried.begin() + kCompileAttempts) ==
        Texts(all.begin(), all.begin() + kCompileAttempts));
  CHECK(tried.size() <= kCompileAttempts + 1);
  CHECK(llvm::is_contained(tried, "plain.t32"));
}

TEST_CASE("what needs more workspace than is allowed is not offered") {
  ChooserFixture f;
  f.family.options.scratchBytes = f.workspaceLimit + 1;
  llvm::Error error =
      f.chooser().offer(ChoiceStep::Close, [](const Choice &) { return true; });
  CHECK(summarize(std::move(error)).code == ErrorCode::NoCandidate);
  // Where nothing is compiled a kernel is missing, which is no error yet.
  f.mode = KILN_MODE_STRICT;
  CHECK(f.offered(ChoiceStep::Existing).empty());
}

TEST_CASE("a generic kernel that a limit puts first stands in for others") {
  ChooserFixture f;
  f.family.options.predictNs = [](const std::string &config) {
    return config == "fast.t64" ? 500 : config == "plain.t32" ? 800 : 1000;
  };
  f.family.options.needsWorkspace = "fast.t64";
  auto sources = [&](ChoiceStep step) {
    std::vector<std::pair<kiln_source, bool>> found;
    Chooser chooser = f.chooser();
    must(chooser.offer(step, [&](const Choice &choice) {
      found.push_back({choice.source, choice.isFallback});
      CHECK(choice.config.text() == "plain.t32");
      return true;
    }));
    return found.at(0);
  };
  SUBCASE("a limit") {
    f.family.options.scratchBytes = f.workspaceLimit + 1;
    CHECK(sources(ChoiceStep::Close) ==
          std::pair(kiln_source(KILN_SOURCE_GENERIC), true));
  }
  SUBCASE("the estimator") {
    f.family.options.predictNs = [](const std::string &config) {
      return config == "plain.t32" ? 400 : 1000;
    };
    CHECK(sources(ChoiceStep::Close) ==
          std::pair(kiln_source(KILN_SOURCE_ESTIMATE), false));
  }
}

TEST_CASE("what is stored is passed over while trials would better it") {
  ChooserFixture f;
  f.mode = KILN_MODE_TUNE;
  const TrialIntent none, ahead{.areAhead = true};
  const Texts both{"fast.t16", "fast.t32"};
  f.decide("fast.t32");
  auto store = [&](RecordPoint point) {
    RecordStore(*f.cache).store(f.family, f.problem, f.deviceClass, point);
  };
  Measurement found = measured("fast.t16", 500);
  found.kernel = f.digest("fast.t16");
  RecordPoint known = point(64, "fast.t16", {found});
  SUBCASE("the estimator's choice stands in for trials of the layer") {
    CHECK(f.stored(ahead) == Texts{"fast.t32"});
    CHECK(f.stored({.areAhead = true, .areRepeated = true}).empty());
    CHECK(f.stored({.areAhead = true, .arePreferred = true}).empty());
  }
  SUBCASE("measured") {
    store(known);
    CHECK(f.stored(ahead) == both);
    CHECK(f.stored({.areAhead = true, .areRepeated = true}).empty());
    CHECK(f.stored({.areAhead = true, .arePreferred = true}) ==
          Texts{"fast.t16"});
  }
  SUBCASE("truncated") {
    known.truncated = 1;
    store(known);
    CHECK(f.stored(ahead).empty());
    CHECK(f.stored(none) == both);
  }
  SUBCASE("searched under a tighter limit") {
    known.leftOutBytes = f.workspaceLimit;
    store(known);
    f.workspaceLimit = known.leftOutBytes;
    CHECK(f.stored(ahead).empty());
    CHECK(f.stored(none) == both);
    f.workspaceLimit = known.leftOutBytes - 1;
    CHECK(f.stored(ahead) == both);
  }
  SUBCASE("none is right") {
    Measurement wrong = rejected("fast.t16");
    wrong.kernel = f.digest("fast.t16");
    store(point(64, "", {wrong}));
    CHECK(f.stored(none) == Texts{"fast.t32"}); // taken back
    f.findWrong("fast.t16");
    CHECK(f.stored(none).empty());
    f.mode = KILN_MODE_PREDICT;
    CHECK(f.stored(none) == Texts{"fast.t32"});
  }
}

TEST_CASE("a decision is offered while its kernels are today's") {
  ChooserFixture f;
  f.decide("fast.t16");
  f.decide("fast.t32", "of another version");
  CHECK(f.stored() == Texts{"fast.t16"});
}

TEST_CASE("the nearest anchor of a kernel says whether it can be launched") {
  ChooserFixture f;
  f.decide("fast.t16");
  Measurement refused = measured("fast.t16", 0);
  refused.valid = refused.validated = false;
  refused.reason = "launch-failed: CUDA_ERROR_INVALID_VALUE";
  refused.kernel = f.digest("fast.t16");
  refused.how = kMeasuredAtAnchor.str();
  auto store = [&](int64_t extent, Measurement found) {
    RecordPoint at = point(extent, "", {std::move(found)});
    f.records.store(
        f.family, makeProblem(f.family, fmt::format("fake m={} n=64", extent)),
        f.deviceClass, at);
  };
  store(256, refused);
  CHECK(f.stored().empty());
  Measurement runs = measured("fast.t16", 500);
  runs.kernel = refused.kernel;
  runs.validated = false;
  store(32, runs);
  CHECK(f.stored() == Texts{"fast.t16"});
  // It says nothing about other kernels of that config.
  refused.kernel = "of another version";
  store(64, refused);
  CHECK(f.stored() == Texts{"fast.t16"});
}

TEST_CASE("a record is offered, in the mode tune if it spares trials") {
  ChooserFixture f;
  SUBCASE("measured here") {
    f.measure("fast.t16", f.digest("fast.t16"));
    for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT}) {
      f.mode = mode;
      CHECK(f.stored() == Texts{"fast.t16"});
    }
    CHECK(f.chooser().unitsToCompile().empty());
  }
  SUBCASE("with other kernels") {
    f.measure("fast.t16", "of another version");
    CHECK(f.stored() == Texts{"fast.t16"});
    f.mode = KILN_MODE_TUNE;
    CHECK(f.stored().empty());
  }
  SUBCASE("at another value") {
    f.measure("fast.t16", f.digest("fast.t16"));
    f.problem = makeProblem(f.family, "fake m=63 n=64");
    for (kiln_mode mode :
         {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
      f.mode = mode;
      CHECK(f.stored().empty());
    }
  }
}

namespace {

struct PortfolioFixture : ChooserFixture {
  /// The layer of the problem for m = 1 to 1024, served by \p configs, of which
  /// each was measured unless \p factors are empty: at m = 64, with its factor
  /// times the prediction.
  Portfolio make(std::vector<const char *> configs,
                 std::vector<double> factors) {
    std::vector<ProblemRange> ranges =
        must(rangesOf(family, problem.values, kFieldM, 1, 1024));
    REQUIRE(ranges.size() == 1);
    Portfolio made(ranges[0]);
    for (size_t i = 0; i < configs.size(); ++i) {
      auto named = must(family.parseConfig(configs[i]));
      PortfolioMember &member = made.mutableMembers().emplace_back();
      member.tmpl = named.tmpl;
      member.config = named.config;
      member.kernel = digest(configs[i]);
      member.low = {1};
      member.high = {1024};
      if (factors.empty())
        continue;
      member.validated = true;
      const double predicted =
          named.tmpl->estimate(problem, named.config, device).totalNs;
      member.times.push_back({{64}, predicted * factors[i], predicted});
    }
    made.index(device);
    return made;
  }
  void store(const Portfolio &made) {
    const std::string layer = made.range().fixedText();
    portfolioStore.store(made.measuredMembers()
                             ? PortfolioKey::measured(layer, deviceClass)
                             : PortfolioKey::estimated(layer, device),
                         made.toStored());
    for (const PortfolioMember &member : made.members())
      for (const MemberTime &time : member.times) {
        Measurement found =
            measured(member.config.text().c_str(), time.measuredNs);
        found.kernel = member.kernel;
        found.how = kMeasuredAtAnchor.str();
        records.store(family, problem, deviceClass,
                      point(time.point[0], "", {found}));
      }
  }
  void keep(Portfolio made) {
    portfolios->add(std::make_shared<const KnownPortfolio>(std::move(made),
                                                           /*isStored=*/false));
  }
  std::vector<kiln_source> sources() {
    std::vector<kiln_source> found;
    must(chooser().offer(ChoiceStep::Stored, [&](const Choice &choice) {
      found.push_back(choice.source);
      return false;
    }));
    return found;
  }
};

} // namespace

TEST_CASE("a portfolio offers its members by expected time") {
  PortfolioFixture f;
  // The estimator puts fast.t64 first; measured, it is the slower one.
  f.keep(f.make({"fast.t64", "fast.t32"}, {3, 1}));
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    f.mode = mode;
    for (const char *text :
         {"fake m=64 n=64", "fake m=1 n=64", "fake m=1024 n=64"}) {
      f.problem = makeProblem(f.family, text);
      const Texts offered = f.stored();
      CHECK(offered.front() == "fast.t32");
      // In a mode that does not compile, only members are considered.
      if (mode == KILN_MODE_STRICT)
        CHECK(offered == Texts{"fast.t32", "fast.t64"});
      else
        CHECK(offered.size() > 2);
    }
  }
  f.mode = KILN_MODE_STRICT;
  f.problem = makeProblem(f.family, "fake m=64 n=64");
  CHECK(f.sources() == std::vector<kiln_source>(2, KILN_SOURCE_RECORD));
  // The problem has a value outside of its range, or is of another layer.
  for (const char *text : {"fake m=1025 n=64", "fake m=64 n=65"}) {
    f.problem = makeProblem(f.family, text);
    CHECK(f.stored().empty());
  }
}

TEST_CASE("a plan of a member is made for the largest value that it serves") {
  PortfolioFixture f;
  f.keep(f.make({"fast.t64"}, {1}));
  Chooser chooser = f.chooser();
  must(chooser.offer(ChoiceStep::Stored, [&](const Choice &choice) {
    llvm::ArrayRef<Problem> targets = chooser.targetsOf(choice);
    REQUIRE(targets.size() == 1);
    CHECK(targets[0].text() == "fake m=1024 n=64");
    return true;
  }));
}

TEST_CASE("a stored portfolio is found, measured before estimated") {
  PortfolioFixture f;
  f.mode = KILN_MODE_STRICT;
  CHECK(f.sources().empty());
  f.store(f.make({"fast.t64"}, {}));
  CHECK(f.sources() == std::vector<kiln_source>{KILN_SOURCE_DECISION});
  CHECK(f.stored() == Texts{"fast.t64"});
  f.portfolios = std::make_unique<PortfolioPool>();
  f.store(f.make({"fast.t32"}, {1}));
  CHECK(f.stored() == Texts{"fast.t32"});
  CHECK(f.sources() == std::vector<kiln_source>{KILN_SOURCE_RECORD});
}

TEST_CASE("in the mode tune what is behind the estimator's choice follows it") {
  PortfolioFixture f;
  f.mode = KILN_MODE_TUNE;
  auto offered = [&](int64_t m) {
    f.problem = makeProblem(f.family, fmt::format("fake m={} n=64", m));
    return f.stored();
  };
  // fast.t64 is predicted with 1000 ns, fast.t16 with 1400.
  Portfolio made = f.make({"fast.t16"}, {1.1});
  SUBCASE("where trials were cut short") {
    f.keep(std::move(made));
    Texts found = offered(64);
    CHECK(found.front() == "fast.t64");
    CHECK(found.back() == "fast.t16");
    f.mode = KILN_MODE_STRICT; // compiles nothing
    CHECK(offered(64) == Texts{"fast.t16"});
  }
  SUBCASE("and not where all kernels of the cover are members") {
    made.isWhole = true;
    f.keep(std::move(made));
    CHECK(offered(64) == Texts{"fast.t16"});
    CHECK(offered(1024) == Texts{"fast.t16"});
  }
  SUBCASE("and not where trials found wrong results") {
    made.hasFoundWrong = true;
    made.index(f.device);
    f.keep(std::move(made));
    CHECK(offered(64) == Texts{"fast.t16"});
  }
  SUBCASE("and not where it is as good") {
    f.keep(f.make({"fast.t64"}, {1.0}));
    CHECK(offered(64).front() == "fast.t64");
  }
}

TEST_CASE("what trials found wrong is offered by no step") {
  PortfolioFixture f;
  f.measure("fast.t64", f.digest("fast.t64"));
  f.decide("fast.t64");
  REQUIRE(f.stored() == Texts{"fast.t64", "fast.t64"});
  f.records.verdicts().found(f.deviceClass, {.kernel = f.digest("fast.t64"),
                                             .config = "fast.t64",
                                             .problem = "fake m=7 n=9",
                                             .reason = "wrong"});
  CHECK(f.stored().empty());
  CHECK_FALSE(llvm::is_contained(f.offered(ChoiceStep::Existing), "fast.t64"));
  CHECK_FALSE(llvm::is_contained(f.offered(ChoiceStep::Compile), "fast.t64"));
  f.keep(f.make({"fast.t64", "fast.t32"}, {1, 1}));
  const Texts offered = f.stored();
  CHECK(llvm::is_contained(offered, "fast.t32"));
  CHECK_FALSE(llvm::is_contained(offered, "fast.t64"));
}

TEST_CASE("in the mode tune the estimator's portfolio stands in for trials") {
  PortfolioFixture f;
  f.keep(f.make({"fast.t64"}, {}));
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT}) {
    f.mode = mode;
    must(f.chooser().offer(ChoiceStep::Stored, [&](const Choice &choice) {
      CHECK(choice.isFallback == (mode == KILN_MODE_TUNE));
      CHECK(choice.source == KILN_SOURCE_ESTIMATE);
      return true;
    }));
  }
}

TEST_CASE("what is compiled ahead is what no step before would spare") {
  ChooserFixture f;
  auto units = f.chooser().unitsToCompile();
  REQUIRE(units.size() == 1);
  CHECK(units[0].digest() == f.unit("fast.t64").digest());
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_STRICT}) {
    f.mode = mode;
    CHECK(f.chooser().unitsToCompile().empty());
  }
  f.mode = KILN_MODE_PREDICT;
  must(f.artifacts->get(f.unit("fast.t64")));
  CHECK(f.chooser().unitsToCompile().empty());
}

TEST_CASE("background: who launches in haste compiles last") {
  using enum ChoiceStep;
  constexpr kiln_mode kMode = KILN_MODE_BACKGROUND;
  const llvm::ArrayRef<ChoiceStep> haste = choiceOrder(kMode, Haste::Launch);
  CHECK(haste.back() == Compile);
  CHECK_FALSE(llvm::is_contained(haste, Trials));
  // A merely close kernel would save a compilation that no caller waits for.
  for (ChoiceStep step : {Loaded, Close})
    CHECK_FALSE(hasStep(kMode, step));
  CHECK(hasStep(kMode, Trials));
  CHECK_FALSE(triesFirst(kMode));
  for (kiln_mode mode : {KILN_MODE_TUNE, KILN_MODE_PREDICT, KILN_MODE_STRICT})
    CHECK(choiceOrder(mode, Haste::Launch).equals(choiceOrder(mode)));
}
