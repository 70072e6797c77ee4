// The binary interface against golden/Abi.txt: the size of every public struct,
// offset and size of every field, the value of every enumerator and number, and
// every function, as a C compiler has them. A difference breaks programs that
// were built before. Growth takes reserved space. The struct of a call and a
// struct that the library fills may also grow at the end, and
// kFirstVersionSize in StructAccess.h then keeps the first version's size.
// With KILN_UPDATE_GOLDENS=1 in the environment the test writes
// the golden instead.
#include "Install/PublicHeaders.h"

#include <cstdlib>

using namespace kiln::testing;
namespace fs = std::filesystem;

namespace {

/// A program that prints sizes, offsets and values.
std::string programOf(const PublicHeaders &headers) {
  std::stringstream text;
  text << "#include <kiln/kiln.h>\n#include <stddef.h>\n#include <stdio.h>\n"
          "int main(void) {\n";
  auto number = [&](const std::string &name, const char *before) {
    text << "  printf(\"" << before << name << " %lld\\n\", (long long)" << name
         << ");\n";
  };
  for (const std::string &name : headers.numbers)
    number(name, "");
  for (const auto &[name, enumerators] : headers.enumerations) {
    text << "  puts(\"enum " << name << "\");\n";
    for (const std::string &enumerator : enumerators)
      number(enumerator, "  ");
  }
  for (const auto &[name, fields] : headers.structs) {
    text << "  printf(\"struct " << name << " %zu\\n\", sizeof(" << name
         << "));\n";
    for (const HeaderField &field : fields)
      text << "  printf(\"  " << field.name << " " << field.type
           << " at %zu, %zu\\n\", offsetof(" << name << ", " << field.name
           << "), sizeof(((" << name << " *)0)->" << field.name << "));\n";
  }
  text << "  return 0;\n}\n";
  return text.str();
}

/// The interface on this machine.
std::string currentAbi(const PublicHeaders &headers) {
  const fs::path folder = fs::path(KILN_BINARY_DIR) / "abi-test";
  fs::create_directories(folder);
  std::ofstream(folder / "abi.c") << programOf(headers);
  auto run = [&](const std::string &command) {
    CAPTURE(command);
    REQUIRE(std::system(command.c_str()) == 0);
  };
  const std::string at = folder.string();
  run(std::string(KILN_C_COMPILER) +
      " -std=c11 -Wall -Wextra -Werror -I" KILN_SOURCE_DIR "/include " + at +
      "/abi.c -o " + at + "/abi");
  run(at + "/abi > " + at + "/abi.txt");
  std::string text = textOf(folder / "abi.txt");
  for (const std::string &function : headers.functions)
    text += function + "\n";
  return text;
}

} // namespace

TEST_CASE("the binary interface is the golden one") {
  const PublicHeaders headers;
  CHECK(headers.structs.size() >= 35);
  CHECK(headers.enumerations.size() >= 30);
  CHECK(headers.functions.size() >= 40);
  const std::string current = currentAbi(headers);
  const fs::path golden =
      fs::path(KILN_SOURCE_DIR) / "unittests/Install/golden/Abi.txt";
  const char *update = std::getenv("KILN_UPDATE_GOLDENS");
  if (update && *update == '1') {
    fs::create_directories(golden.parent_path());
    std::ofstream(golden) << current;
    return;
  }
  REQUIRE(fs::exists(golden));
  std::stringstream expected(textOf(golden)), found(current);
  int line = 0;
  for (std::string a, b; std::getline(expected, a);) {
    ++line;
    std::getline(found, b);
    CAPTURE(line);
    REQUIRE_MESSAGE(a == b, "run KILN_UPDATE_GOLDENS=1 KilnInstallTests "
                            "-tc='*golden*' if the interface may change");
  }
  CHECK(current == textOf(golden));
}

TEST_CASE("structs, enumerations and functions of the headers are found") {
  const PublicHeaders headers;
  const auto &range = headers.structs.at("kiln_range");
  REQUIRE(range.size() == 7);
  CHECK(range[2].name == "name");
  CHECK(range[2].type == "pointer");
  CHECK(range[6].type == "uint64_t[2]");
  CHECK(headers.structs.at("kiln_problem")[1].type == "int32_t");
  CHECK(headers.structs.at("kiln_gemm_args")[4].name == "k");
  CHECK(headers.structs.at("kiln_allocator")[3].name == "allocate");
  CHECK(headers.structs.at("kiln_engine_options").size() > 25);
  CHECK(headers.enumerations.at("kiln_layout_value").size() == 4);
  CHECK(headers.enumerations.at("kiln_dtype_value").size() == 12);
  CHECK(std::count(headers.numbers.begin(), headers.numbers.end(),
                   "KILN_ABI_VERSION") == 1);
  CHECK(std::count(headers.functions.begin(), headers.functions.end(),
                   "uint32_t kiln_abi_version(void)") == 1);
}
