//===- ExplainFormulas.cpp ------------------------------------------------===//
#include "kiln/ExplainFormulas.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <map>
#include <vector>

namespace kiln::cli {

Html stepLink(int number, llvm::StringRef text) {
  return {fmt::format("<a href=\"#step{}\">{}</a>", number, markupText(text))};
}

Html stepLinks(llvm::ArrayRef<int> numbers) {
  Html links;
  for (int number : numbers) {
    links.markup += links.markup.empty() ? "" : " ";
    links += stepLink(number, fmt::format("[{}]", number));
  }
  return links;
}

//===----------------------------------------------------------------------===//
// Marks
//===----------------------------------------------------------------------===//

namespace {

/// The mark of a value: its class in the style sheet, a tag of a few letters,
/// and a sentence.
struct Mark {
  std::string kind, tag, title;
};

} // namespace

/// Three letters of the name of a source.
static std::string tagOf(llvm::StringRef source) {
  return source.take_front(3).str();
}

/// \p value's mark. Where \p device has a note on a value, it is told.
static Mark markOf(const Figure::Node &value, const DeviceModel &device) {
  switch (value.source) {
  case FigureSource::Literal:
    return {"literal", "", "a number of the formula"};
  case FigureSource::Work:
    return {"work", "", "follows from problem and config"};
  case FigureSource::Fitted:
    return {"fitted", tagOf(nameOf(value.source)),
            "a constant that was fitted to measured times"};
  case FigureSource::Device:
    break;
  }
  if (!findDeviceField(value.name))
    return {"device", "", "a value of the device"};
  const ValueOrigin &origin = originOf(device, value.name);
  return {"device", tagOf(nameOf(origin.source)),
          fmt::format("{}: {}{}{}", value.name, nameOf(origin.source),
                      origin.note.empty() ? "" : ", ", origin.note)};
}

static std::string tagMarkup(const std::string &tag) {
  return tag.empty() ? "" : fmt::format("<sup>{}</sup>", markupText(tag));
}

static Html valueMarkup(const FormulaPiece &piece, const DeviceModel &device) {
  const Mark mark = markOf(*piece.value, device);
  return {fmt::format("<span class=\"value {}\" title=\"{}\">{}{}</span>",
                      mark.kind, markupText(mark.title), markupText(piece.text),
                      tagMarkup(mark.tag))};
}

Html formulaMarkup(llvm::ArrayRef<FormulaPiece> pieces,
                   const DeviceModel &device) {
  Html markup;
  for (const FormulaPiece &piece : pieces)
    if (piece.step > 0)
      markup += stepLink(piece.step, piece.text);
    else if (piece.value)
      markup += valueMarkup(piece, device);
    else
      markup.markup += markupText(piece.text);
  return markup;
}

/// Calls \p visit with each value without parts of \p steps and its step.
template <class Visit>
static void forEachValue(const Derivation &steps, Visit visit) {
  for (int number = 1; number <= static_cast<int>(steps.size()); ++number)
    for (const FormulaPiece &piece : steps.formulaPieces(number))
      if (piece.value)
        visit(*piece.value, number);
}

Html marksLegend(const Derivation &steps, const DeviceModel &device) {
  // Sources of the device in the order of their strength, then the others.
  std::map<std::pair<bool, int>, Mark> marks;
  forEachValue(steps, [&](const Figure::Node &value, int) {
    Mark mark = markOf(value, device);
    int order = static_cast<int>(value.source);
    const bool isOfDevice = value.source == FigureSource::Device;
    if (isOfDevice) {
      const ValueSource source = findDeviceField(value.name)
                                     ? originOf(device, value.name).source
                                     : ValueSource::Unset;
      order = -static_cast<int>(source);
      mark.title =
          fmt::format("the device's value, source: {}", nameOf(source));
    }
    marks.try_emplace({!isOfDevice, order}, std::move(mark));
  });
  Html legend{"<ul class=\"marks\">\n"};
  for (const auto &[key, mark] : marks)
    legend.markup +=
        fmt::format("<li><span class=\"value {}\">123{}</span> {}</li>\n",
                    mark.kind, tagMarkup(mark.tag), markupText(mark.title));
  legend.markup += "<li><a href=\"#step1\">123 [4]</a> the result of a step"
                   "</li>\n</ul>\n";
  return legend;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static Html stepMarkup(const Derivation &steps, int number,
                       const DeviceModel &device) {
  const DerivationStep &step = steps[number];
  Html markup{fmt::format(
      "<div class=\"step\" id=\"step{0}\">\n<span class=\"number\">{0}</span>\n"
      "<div>\n<div class=\"formula\">",
      number)};
  const std::vector<FormulaPiece> pieces = steps.formulaPieces(number);
  markup.markup += fmt::format("<b>{}</b>", markupText(pieces.front().text));
  markup += formulaMarkup(llvm::ArrayRef(pieces).drop_front(), device);
  markup.markup += "</div>\n";
  if (!step.words.note.empty())
    markup += htmlNote(step.words.note);
  if (!step.words.verdict.empty())
    markup.markup += fmt::format("<p class=\"verdict\">{}</p>\n",
                                 markupText(step.words.verdict));
  markup.markup += "</div>\n</div>\n";
  return markup;
}

Html stepsMarkup(const Derivation &steps, const DeviceModel &device) {
  Html markup;
  std::string section;
  for (int number = 1; number <= static_cast<int>(steps.size()); ++number) {
    if (number == 1 || steps[number].section != section) {
      section = steps[number].section;
      markup += htmlHeading(section);
    }
    markup += stepMarkup(steps, number, device);
  }
  return markup;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

namespace {

/// A value, and the steps that have it.
struct UsedValue {
  const Figure::Node *value = nullptr;
  std::vector<int> steps;
};

} // namespace

/// The values of \p source in \p steps in the order of their first use; one of
/// several that agree.
static std::vector<UsedValue> valuesOf(const Derivation &steps,
                                       FigureSource source) {
  std::vector<UsedValue> used;
  forEachValue(steps, [&](const Figure::Node &value, int number) {
    if (value.source != source)
      return;
    auto known = llvm::find_if(used, [&](const UsedValue &one) {
      return one.value->name == value.name && one.value->value == value.value;
    });
    if (known == used.end())
      known = used.insert(used.end(), UsedValue{&value, {}});
    if (known->steps.empty() || known->steps.back() != number)
      known->steps.push_back(number);
  });
  return used;
}

static Html textCell(llvm::StringRef text) { return {markupText(text)}; }

static Html deviceTable(const Derivation &steps, const DeviceModel &device) {
  static constexpr HtmlColumn kColumns[] = {
      {"key", HtmlCell::Code},
      {"value", HtmlCell::Figure},
      {"unit"},
      {"source"},
      {"note"},
      {"used in steps", HtmlCell::Prose},
  };
  HtmlTable table(fmt::format("Values of {} in this derivation", device.name),
                  kColumns);
  for (const UsedValue &used : valuesOf(steps, FigureSource::Device)) {
    const Figure::Node &value = *used.value;
    const ValueOrigin origin = findDeviceField(value.name)
                                   ? originOf(device, value.name)
                                   : ValueOrigin{};
    table.addMarkupRow({textCell(value.name),
                        textCell(fmt::format("{}", value.value)),
                        textCell(value.unit), textCell(nameOf(origin.source)),
                        textCell(origin.note), stepLinks(used.steps)});
  }
  return table.empty() ? Html{} : table.html();
}

static Html constantTable(const Derivation &steps) {
  static constexpr HtmlColumn kColumns[] = {
      {"constant"},
      {"value", HtmlCell::Figure},
      {"unit"},
      {"used in steps", HtmlCell::Prose},
  };
  HtmlTable table("Constants that were fitted to measured times", kColumns);
  for (const UsedValue &used : valuesOf(steps, FigureSource::Fitted)) {
    const Figure::Node &value = *used.value;
    table.addMarkupRow({textCell(value.name),
                        textCell(fmt::format("{}", value.value)),
                        textCell(value.unit), stepLinks(used.steps)});
  }
  return table.empty() ? Html{} : table.html();
}

Html sourcesMarkup(const Derivation &steps, const DeviceModel &device) {
  Html markup = deviceTable(steps, device);
  markup += constantTable(steps);
  return markup;
}

} // namespace kiln::cli
