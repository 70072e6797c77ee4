//===- Html.cpp -----------------------------------------------------------===//
#include "cli/Html.h"

#include "Support/Format.h"
#include "Support/Printable.h"

#include <llvm/ADT/STLExtras.h>

#include <cassert>

namespace kiln::cli {

static llvm::StringRef escapeOf(char c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  default:
    return "";
  }
}

std::string markupText(llvm::StringRef text) {
  const std::string visible = printable(text);
  std::string shown;
  for (llvm::StringRef left = visible; !left.empty();) {
    // Two characters that XML does not allow.
    if (left.consume_front("\xef\xbf\xbe") ||
        left.consume_front("\xef\xbf\xbf")) {
      shown += '?';
      continue;
    }
    const llvm::StringRef escape = escapeOf(left.front());
    shown += escape.empty() ? left.take_front(1) : escape;
    left = left.drop_front(1);
  }
  return shown;
}

Html htmlParagraph(llvm::StringRef text) {
  return {fmt::format("<p>{}</p>\n", markupText(text))};
}

Html htmlNote(llvm::StringRef text) {
  return {fmt::format("<p class=\"note\">{}</p>\n", markupText(text))};
}

Html htmlHeading(llvm::StringRef text) {
  return {fmt::format("<h3>{}</h3>\n", markupText(text))};
}

Html htmlList(llvm::ArrayRef<std::string> texts) {
  Html list{"<ul>\n"};
  for (const std::string &text : texts)
    list.markup += fmt::format("<li>{}</li>\n", markupText(text));
  list.markup += "</ul>\n";
  return list;
}

Html htmlGrid(llvm::ArrayRef<Html> parts) {
  Html grid{"<div class=\"grid\">\n"};
  for (const Html &part : parts)
    grid += part;
  grid.markup += "</div>\n";
  return grid;
}

Html htmlPair(const Html &a, const Html &b) {
  return {
      fmt::format("<div class=\"pair\">\n{}{}</div>\n", a.markup, b.markup)};
}

Html htmlPreformatted(llvm::StringRef text) {
  // Lines end in the markup, too; each line is escaped by itself.
  std::string lines;
  for (llvm::StringRef left = text; !left.empty();) {
    auto [line, rest] = left.split('\n');
    lines += markupText(line) + '\n';
    left = rest;
  }
  return {fmt::format("<div class=\"scroll\" tabindex=\"0\"><pre>{}</pre>"
                      "</div>\n",
                      lines)};
}

Html htmlFoldout(llvm::StringRef summary, const Html &content) {
  return {fmt::format("<details><summary>{}</summary>\n{}</details>\n",
                      markupText(summary), content.markup)};
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static llvm::StringRef attributeOf(HtmlCell kind) {
  switch (kind) {
  case HtmlCell::Text:
    return "";
  case HtmlCell::Prose:
    return " class=\"prose\"";
  case HtmlCell::Figure:
    return " class=\"figure\"";
  case HtmlCell::Code:
    return " class=\"code\"";
  }
  return "";
}

HtmlTable::HtmlTable(llvm::StringRef caption,
                     llvm::ArrayRef<HtmlColumn> columns)
    : caption(caption.str()) {
  for (const HtmlColumn &column : columns) {
    headers.push_back(column.header.str());
    kinds.push_back(column.kind);
  }
}

void HtmlTable::addRow(std::vector<std::string> cells) {
  std::vector<Html> markup;
  for (const std::string &cell : cells)
    markup.push_back({markupText(cell)});
  addMarkupRow(std::move(markup));
}

void HtmlTable::addMarkupRow(std::vector<Html> cells) {
  assert(cells.size() == headers.size() && "content for each column");
  rows.push_back(std::move(cells));
}

Html HtmlTable::html() const {
  const std::string name = markupText(caption);
  // With the keyboard, too, a box is scrolled once it has the focus.
  Html table{fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                         "aria-label=\"{0}\">\n<table>\n<caption>{0}</caption>"
                         "\n<thead><tr>",
                         name)};
  for (auto [header, kind] : llvm::zip(headers, kinds))
    table.markup += fmt::format("<th scope=\"col\"{}>{}</th>",
                                attributeOf(kind), markupText(header));
  table.markup += "</tr></thead>\n<tbody>\n";
  for (const auto &row : rows) {
    table.markup += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      table.markup += fmt::format("<{0}{1}{2}>{3}</{0}>", i == 0 ? "th" : "td",
                                  i == 0 ? " scope=\"row\"" : "",
                                  attributeOf(kinds[i]), row[i].markup);
    table.markup += "</tr>\n";
  }
  table.markup += "</tbody>\n</table>\n</div>\n";
  return table;
}

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

std::string HtmlPage::text() const {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\"/>\n<title>{0}</title>\n<style>\n{1}</style>\n</head>\n"
      "<body>\n<header>\n<h1>{0}</h1>\n<p>{2}</p>\n<nav "
      "aria-label=\"Sections\">\n",
      markupText(title), htmlStyle(), markupText(lead));
  for (auto [i, section] : llvm::enumerate(sections))
    page += fmt::format("<a href=\"#section{}\">{}</a>\n", i + 1,
                        markupText(section.heading));
  page += "</nav>\n</header>\n<main>\n";
  for (auto [i, section] : llvm::enumerate(sections))
    page +=
        fmt::format("<section id=\"section{}\">\n<h2>{}</h2>\n{}"
                    "</section>\n",
                    i + 1, markupText(section.heading), section.body.markup);
  return page + "</main>\n</body>\n</html>\n";
}

} // namespace kiln::cli
