#include "Compile/SourceText.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace kiln;

namespace {

struct Example {
  const char *text, *stripped, *key;
};

} // namespace

static int linesOf(const std::string &text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

static void check(const Example &example) {
  const std::string text = example.text;
  CAPTURE(text);
  const std::string stripped = withoutProse(text);
  CHECK(stripped == example.stripped);
  CHECK(keyText(text) == example.key);
  // A stripped text stays as it is, on the same lines.
  CHECK(linesOf(stripped) == linesOf(text));
  CHECK(withoutProse(stripped) == stripped);
  CHECK(keyText(stripped) == example.key);
  CHECK(keyText(example.key) == example.key);
}

TEST_CASE("prose goes, lines stay") {
  for (const Example &example :
       {Example{"", "", ""},
        {"int a;\n", "int a;\n", "int a;"},
        {"// one\n\n  int  a ; // two\n", "\n\nint a ;\n", "int a ;"},
        {"int a;\n\n\nint b;", "int a;\n\n\nint b;", "int a;\nint b;"},
        {"int/* type */a;\n", "int a;\n", "int a;"},
        {"\t\v\fint a\t;\f\n", "int a ;\n", "int a ;"},
        {"/* a\n b */\nint a;\n", "\n\nint a;\n", "int a;"},
        {"int a; /* a\n b */\n", "int a;\n\n", "int a;"},
        {"int a;\r\n// b\r\nint b;\r\n", "int a;\n\nint b;\n",
         "int a;\nint b;"},
        {"a / b; a /= b; a * b;\n", "a / b; a /= b; a * b;\n",
         "a / b; a /= b; a * b;"},
        {"/*/ a */ b /**/ c //*/ d\n", "b c\n", "b c"},
        {"int a; // no end", "int a;", "int a;"}})
    check(example);
}

TEST_CASE("literals stay as they are") {
  for (const Example &example :
       {Example{"f(\"a  // b\");\n", "f(\"a  // b\");\n", "f(\"a  // b\");"},
        {"f(\"a\\\" // b\"); // c\n", "f(\"a\\\" // b\");\n",
         "f(\"a\\\" // b\");"},
        {"'\"' /* ' */ '\\'' // '\n", "'\"' '\\''\n", "'\"' '\\''"},
        {"u8\"/*\" L'/' u'\"' U\"//\"\n", "u8\"/*\" L'/' u'\"' U\"//\"\n",
         "u8\"/*\" L'/' u'\"' U\"//\""},
        {"R\"(// a\n\n  \" /*)\" // b\n", "R\"(// a\n\n  \" /*)\"\n",
         "R\"(// a\n\n  \" /*)\""},
        {"u8R\"x(a)\" //)x\" // b\n", "u8R\"x(a)\" //)x\"\n",
         "u8R\"x(a)\" //)x\""},
        // A word that ends with R is no prefix.
        {"FOUR\"(\" // a\n", "FOUR\"(\"\n", "FOUR\"(\""},
        {"1'000'000 /* ' */ 0x1'f // '\n", "1'000'000 0x1'f\n",
         "1'000'000 0x1'f"},
        {"1e+5'0 .5 // '\n", "1e+5'0 .5\n", "1e+5'0 .5"},
        // A literal of two lines, and one with its quote behind a splice.
        {"\"a  \\\n  // b\" // c\n", "\"a  \\\n  // b\"\n",
         "\"a  \\\n  // b\""},
        {"\"a\\\\\n\" // b\" // c\n", "\"a\\\\\n\" // b\"\n",
         "\"a\\\\\n\" // b\""}})
    check(example);
}

TEST_CASE("a directive stays one") {
  for (const Example &example :
       {Example{"  #  define  F( x )  x // c\n", "# define F( x ) x\n",
                "# define F( x ) x"},
        {"#define F(x) a \\\n  b // c\nint d;\n",
         "#define F(x) a \\\nb\nint d;\n", "#define F(x) a b\nint d;"},
        {"#define A 1 /* a\n b */ + 2\n", "#define A 1 \\\n+ 2\n",
         "#define A 1 + 2"},
        {"#define A /**/ (b)\n", "#define A (b)\n", "#define A (b)"},
        {"#define A a/**/b\n", "#define A a b\n", "#define A a b"},
        // No directive, and so it stays none.
        {"a /* b\n */ #define C\n", "a \\\n#define C\n", "a #define C"},
        {"/* b\n */ #define C\n", "\n#define C\n", "#define C"},
        {"#include <a//b> // c\n", "#include <a//b>\n", "#include <a//b>"},
        {"# /**/ include /* a */ <a/*b> /* c */\n", "# include <a/*b>\n",
         "# include <a/*b>"},
        {"%: include_next <a//b> // c\n", "%: include_next <a//b>\n",
         "%: include_next <a//b>"},
        {"#if __has_include(<a//b>) && 1 < 2 // > c\n",
         "#if __has_include(<a//b>) && 1 < 2\n",
         "#if __has_include(<a//b>) && 1 < 2"},
        {"a < b // > c\n", "a < b\n", "a < b"},
        {"#include \"a//b\" // c\n", "#include \"a//b\"\n",
         "#include \"a//b\""}})
    check(example);
}

TEST_CASE("splices are seen wherever they are") {
  for (const Example &example :
       {Example{"// a \\\n b\nint c;\n", "\n\nint c;\n", "int c;"},
        {"/\\\n/ a\nint c;\n", "\n\nint c;\n", "int c;"},
        {"b /\\\n* a *\\\n/ c\n", "b \\\n\\\nc\n", "b c"},
        {"// a \\\r\n b\r\nint c;\r\n", "\n\nint c;\n", "int c;"},
        {"in\\\nt a;\n", "in\\\nt a;\n", "int a;"},
        {"int\\\n  a;\n", "int \\\na;\n", "int a;"},
        {"1\\\n'0 // '\n", "1\\\n'0\n", "1'0"},
        {"R\\\n\"(//)\" // a\n", "R\\\n\"(//)\"\n", "R\"(//)\""},
        {"\\\n#define A\n", "\n#define A\n", "#define A"},
        // A backslash before a blank or a comment is no splice.
        {"#define A \\ // b\nint c;\n", "#define A \\ \nint c;\n",
         "#define A \\ \nint c;"},
        {"a \\ \nb\n", "a \\ \nb\n", "a \\ \nb"},
        {"a \\\\\n", "a \\ \n", "a \\ "}})
    check(example);
}

TEST_CASE("what has no end is left to the compiler") {
  for (const char *text :
       {"int a; /* b\n", "int a; /*/", "R\"(a // b\n", "R\"(a)b\" // c"}) {
    CAPTURE(text);
    CHECK(withoutProse(text) == text);
  }
  // Up to the end of its line.
  CHECK(withoutProse("#error don't // a\nint b; // c\n") ==
        "#error don't // a\nint b;\n");
  CHECK(withoutProse("R\"a b // c\nint d; // e\n") == "R\"a b // c\nint d;\n");
}

TEST_CASE("texts that ask for lines are told") {
  for (const char *text :
       {"int a = __LINE__;\n", "assert(a)", "__builtin_LINE()",
        "std::source_location::current()"})
    CHECK(dependsOnLines(text));
  for (const char *text :
       {"int a;\n", "static_assert(true);\n", "int __LINE__A;\n", ""})
    CHECK_FALSE(dependsOnLines(text));
}
