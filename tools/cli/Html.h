//===- Html.h - pages that need nothing but a browser ---------------------===//
//
// A page is one file: its style sheet and its pictures are in it, it loads
// nothing and runs no script. It follows the reader's choice of light or dark,
// and its text is readable from 360 pixels of width on. The markup is XML at
// the same time: every element is closed, so that other programs read it, too.
//
// A page is made of sections, a section of what the functions here and in
// Plot.h return. All are plain values; equal ones give equal bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// Markup. It is a type of its own, so that text cannot get into a page without
/// being escaped.
struct Html {
  std::string markup;

  Html &operator+=(const Html &more) {
    markup += more.markup;
    return *this;
  }
};

/// \p text as the content of an element or attribute: escaped, and made
/// printable().
std::string markupText(llvm::StringRef text);

/// A paragraph of text.
Html htmlParagraph(llvm::StringRef text);
/// A smaller paragraph, for sources and remarks.
Html htmlNote(llvm::StringRef text);
/// A heading inside of a section.
Html htmlHeading(llvm::StringRef text);
/// A list of texts.
Html htmlList(llvm::ArrayRef<std::string> texts);
/// \p parts side by side, as many in a line as there is room for.
Html htmlGrid(llvm::ArrayRef<Html> parts);
/// \p a and \p b beside each other where both have room at their own widths.
Html htmlPair(const Html &a, const Html &b);
/// \p text as it is laid out, in the type of code.
Html htmlPreformatted(llvm::StringRef text);
/// \p content, shown once the reader opens it.
Html htmlFoldout(llvm::StringRef summary, const Html &content);

/// The kind of a table's column.
enum class HtmlCell {
  Text,   ///< a few words, in one line
  Prose,  ///< of several lines
  Figure, ///< flush right
  Code,   ///< in the type of code
};

struct HtmlColumn {
  llvm::StringRef header;
  HtmlCell kind = HtmlCell::Text;
};

/// A table in a box that scrolls by itself where it is wider than the page.
class HtmlTable {
public:
  /// \p caption says what the rows are.
  HtmlTable(llvm::StringRef caption, llvm::ArrayRef<HtmlColumn> columns);

  /// A text for each column; the first one is the row's header.
  void addRow(std::vector<std::string> cells);
  /// The same with markup in the cells.
  void addMarkupRow(std::vector<Html> cells);
  bool empty() const { return rows.empty(); }
  Html html() const;

private:
  std::string caption;
  std::vector<std::string> headers;
  std::vector<HtmlCell> kinds;
  std::vector<std::vector<Html>> rows;
};

/// A page: a title, a paragraph, links to the sections, the sections.
class HtmlPage {
public:
  HtmlPage(std::string title, std::string lead)
      : title(std::move(title)), lead(std::move(lead)) {}

  void addSection(std::string heading, Html body) {
    sections.push_back({std::move(heading), std::move(body)});
  }
  /// The whole file.
  std::string text() const;

private:
  struct Section {
    std::string heading;
    Html body;
  };

  std::string title, lead;
  std::vector<Section> sections;
};

/// The style sheet of pages, with the colours of Plot.h.
llvm::StringRef htmlStyle();

} // namespace kiln::cli
