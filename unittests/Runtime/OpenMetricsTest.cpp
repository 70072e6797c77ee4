// The text of OpenMetrics, held against the grammar of version 1.0.
#include "Runtime/OpenMetrics.h"

#include "Runtime/RuntimeFixture.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The contents of a text of OpenMetrics.
struct ParsedMetrics {
  struct Family {
    std::string type, unit, help, sample, labels, value;
  };
  std::map<std::string, Family> families;
  std::string fault; ///< empty: the text follows the grammar
};

/// Reads the part of the grammar that Kiln writes: descriptors of a family in
/// the order TYPE, UNIT, HELP, then one sample; counters, gauges and infos.
class MetricsParser {
public:
  static ParsedMetrics parse(const std::string &text) {
    MetricsParser parser;
    if (text.size() < 6 || text.substr(text.size() - 6) != "# EOF\n")
      parser.fail("no end mark");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      parser.read(line);
    if (!parser.hasEnded)
      parser.fail("no end mark");
    return std::move(parser.result);
  }

private:
  void fail(const std::string &why) {
    if (result.fault.empty())
      result.fault = why;
  }

  void read(const std::string &line) {
    if (hasEnded)
      return fail("text behind the end mark: " + line);
    if (line == "# EOF") {
      hasEnded = true;
      if (!current.empty())
        fail("a family without a sample: " + current);
      return;
    }
    static const std::regex descriptor("# (TYPE|UNIT|HELP) "
                                       "([a-zA-Z_:][a-zA-Z0-9_:]*) (\\S.*)");
    static const std::regex sample(
        "([a-zA-Z_:][a-zA-Z0-9_:]*)"
        "(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"[^\"\\\\]*\"\\})?"
        " ([0-9]+(\\.[0-9]+)?)");
    std::smatch match;
    if (std::regex_match(line, match, descriptor))
      readDescriptor(match[1], match[2], match[3]);
    else if (std::regex_match(line, match, sample))
      readSample(match[1], match[2], match[3]);
    else
      fail("neither a descriptor nor a sample: " + line);
  }

  void readDescriptor(const std::string &kind, const std::string &name,
                      const std::string &value) {
    if (kind == "TYPE") {
      if (!current.empty())
        fail("a family without a sample: " + current);
      if (!result.families.try_emplace(name).second)
        fail("two families called " + name);
      current = name;
    }
    if (name != current)
      return fail(kind + " of another family: " + name);
    ParsedMetrics::Family &family = result.families[name];
    std::string &field = kind == "TYPE"   ? family.type
                         : kind == "UNIT" ? family.unit
                                          : family.help;
    if (!field.empty())
      fail("a second " + kind + " of " + name);
    field = value;
    static const std::set<std::string> types{"counter", "gauge", "info"};
    if (kind == "TYPE" && !types.count(value))
      fail("type " + value);
    const std::string suffix = "_" + family.unit;
    if (kind == "UNIT" && (name.size() <= suffix.size() ||
                           name.substr(name.size() - suffix.size()) != suffix))
      fail(name + " does not end with its unit");
    if (kind == "HELP" && value.find_first_of("\"\\") != std::string::npos)
      fail("help that has to be escaped: " + value);
  }

  void readSample(const std::string &name, const std::string &labels,
                  const std::string &value) {
    ParsedMetrics::Family &family = result.families[current];
    const char *suffix = family.type == "counter" ? "_total"
                         : family.type == "info"  ? "_info"
                                                  : "";
    if (current.empty() || name != current + suffix)
      fail("sample " + name + " of the family " + current);
    if (family.type == "info" && value != "1")
      fail("an info of " + value);
    if (family.help.empty())
      fail("no help for " + current);
    // Reserved for samples: a family must not end so.
    for (const char *reserved : {"_total", "_info", "_created", "_bucket"})
      if (current.size() > std::strlen(reserved) &&
          current.substr(current.size() - std::strlen(reserved)) == reserved)
        fail("a family called " + current);
    family.sample = name;
    family.labels = labels;
    family.value = value;
    current.clear();
  }

  ParsedMetrics result;
  std::string current; ///< the family whose sample is to come
  bool hasEnded = false;
};

std::string textOf(kiln_engine *engine) {
  std::string text(1 << 14, '\0');
  size_t length = 0;
  REQUIRE(kiln_openmetrics(engine, text.data(), text.size(), &length) ==
          KILN_SUCCESS);
  REQUIRE(length < text.size());
  text.resize(length);
  return text;
}

} // namespace

TEST_CASE("every field of the statistics is one metric, in their order") {
  kiln_statistics statistics;
  auto offsetOf = [&](uint64_t kiln_statistics::*field) {
    return size_t(reinterpret_cast<const char *>(&(statistics.*field)) -
                  reinterpret_cast<const char *>(&statistics));
  };
  size_t expected = offsetof(kiln_statistics, launches);
  for (const Metric &metric : metrics()) {
    CAPTURE(metric.name);
    CHECK(offsetOf(metric.field) == expected);
    expected += sizeof(uint64_t);
  }
  CHECK(expected == offsetof(kiln_statistics, reserved));
}

TEST_CASE("the text follows OpenMetrics 1.0, and its numbers are exact") {
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  uint64_t number = 1'234'567'890'123;
  for (const Metric &metric : metrics())
    statistics.*metric.field = number++;
  const std::string text = openMetricsText(statistics);
  const ParsedMetrics parsed = MetricsParser::parse(text);
  CHECK(parsed.fault == "");
  CHECK(parsed.families.size() == metrics().size() + 1);
  for (const Metric &metric : metrics()) {
    CAPTURE(metric.name);
    const auto found = parsed.families.find(std::string("kiln_") + metric.name);
    REQUIRE(found != parsed.families.end());
    const ParsedMetrics::Family &family = found->second;
    CHECK(family.type ==
          (metric.kind == Metric::Kind::Counter ? "counter" : "gauge"));
    const std::string digits = std::to_string(statistics.*metric.field);
    const bool isTime = metric.unit == Metric::Unit::Seconds;
    CHECK(family.unit == (isTime                               ? "seconds"
                          : metric.unit == Metric::Unit::Bytes ? "bytes"
                                                               : ""));
    CHECK(family.value ==
          (isTime ? digits.substr(0, 4) + "." + digits.substr(4) : digits));
  }
  const ParsedMetrics::Family &build = parsed.families.at("kiln_build");
  CHECK(build.type == "info");
  CHECK(build.labels ==
        std::string("{version=\"") + kiln_version_string() + "\"}");
  // Little times have their leading zeros.
  statistics.load_ns = 1;
  CHECK(openMetricsText(statistics)
            .find("kiln_load_seconds_total 0.000000001\n") !=
        std::string::npos);
}

TEST_CASE("the checker of the grammar sees faults") {
  const std::string good = openMetricsText(KILN_INIT(kiln_statistics));
  auto faultOf = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return MetricsParser::parse(text).fault;
  };
  CHECK(MetricsParser::parse(good).fault == "");
  CHECK(faultOf("# EOF\n", "") != "");
  CHECK(faultOf("# EOF\n", "# EOF\n\n") != "");
  CHECK(faultOf("kiln_launches_total", "kiln_launches") != "");
  CHECK(faultOf("kiln_plans 0", "kiln_plans  0") != "");
  CHECK(faultOf("_info{version", "{version") != "");
  CHECK(faultOf("# UNIT kiln_arena_bytes bytes",
                "# UNIT kiln_arena_bytes seconds") != "");
  CHECK(faultOf("# HELP kiln_plans Plans loaded now.\n", "") != "");
  CHECK(faultOf("# TYPE kiln_plans gauge", "# TYPE kiln_trials gauge") != "");
}

TEST_CASE("an engine tells its metrics as other texts are told") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  const kiln_gemm_args args = splitArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  const ParsedMetrics parsed = MetricsParser::parse(textOf(engine));
  CHECK(parsed.fault == "");
  const kiln_statistics now = statisticsOf(engine);
  CHECK(parsed.families.at("kiln_launches").value == "1");
  CHECK(parsed.families.at("kiln_arena_bytes").value ==
        std::to_string(now.arena_bytes));
  CHECK(now.arena_bytes > 0);
  char cut[8];
  size_t length = 0;
  CHECK(kiln_openmetrics(engine, cut, sizeof(cut), &length) == KILN_SUCCESS);
  CHECK(std::string(cut) == "# TYPE ");
  CHECK(length == textOf(engine).size());
  CHECK(kiln_openmetrics(engine, nullptr, 0, &length) == KILN_SUCCESS);
  CHECK(kiln_openmetrics(engine, nullptr, 1, &length) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_openmetrics(nullptr, cut, sizeof(cut), &length) ==
        KILN_INVALID_ARGUMENT);
}
