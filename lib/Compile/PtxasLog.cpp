//===- PtxasLog.cpp -------------------------------------------------------===//
#include "Compile/PtxasLog.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>

namespace kiln {

/// The number right before the first \p unit of \p line, 0 without one: 24 for
/// "24 bytes spill stores" and unit " bytes spill stores".
static int64_t numberBefore(llvm::StringRef line, llvm::StringRef unit) {
  size_t at = line.find(unit);
  if (at == llvm::StringRef::npos)
    return 0;
  llvm::StringRef head = line.take_front(at);
  size_t digits = head.size();
  while (digits > 0 && llvm::isDigit(head[digits - 1]))
    --digits;
  int64_t value = 0;
  return head.drop_front(digits).getAsInteger(10, value) ? 0 : value;
}

/// Sum of "N bytes cmem[bank]" over the banks.
static int64_t constantBytes(llvm::StringRef line) {
  static constexpr llvm::StringLiteral kUnit = " bytes cmem[";
  int64_t sum = 0;
  while (line.contains(kUnit)) {
    sum += numberBefore(line, kUnit);
    line = line.drop_front(line.find(kUnit) + kUnit.size());
  }
  return sum;
}

/// Lines of \p log; its parts are separated by NULs as well as newlines.
static llvm::SmallVector<llvm::StringRef, 64> linesOf(llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef, 64> lines;
  while (!log.empty()) {
    size_t length = log.find_first_of(llvm::StringRef("\n\r\0", 3));
    lines.push_back(log.take_front(length));
    log = length == llvm::StringRef::npos ? llvm::StringRef()
                                          : log.drop_front(length + 1);
  }
  return lines;
}

ResourceUsage parseResourceUsage(llvm::StringRef log, llvm::StringRef entry) {
  // "Compiling entry function" opens the part of a kernel; inside it "Function
  // properties" is followed by a line about the kernel or about a function that
  // was not inlined. "Used" is about the kernel.
  ResourceUsage usage;
  bool inEntry = false, aboutEntry = false;
  for (llvm::StringRef line : linesOf(log)) {
    if (line.contains("Compiling entry function '")) {
      inEntry = line.split('\'').second.split('\'').first == entry;
      aboutEntry = false;
    } else if (line.contains("Function properties for ")) {
      aboutEntry =
          inEntry && line.split("properties for ").second.trim() == entry;
    } else if (aboutEntry && line.contains(" bytes stack frame")) {
      usage.stackBytes = numberBefore(line, " bytes stack frame");
      usage.spillStoreBytes = numberBefore(line, " bytes spill stores");
      usage.spillLoadBytes = numberBefore(line, " bytes spill loads");
    } else if (inEntry && line.contains(": Used ")) {
      usage.registersPerThread = numberBefore(line, " registers");
      usage.staticSharedBytes = numberBefore(line, " bytes smem");
      usage.constantBytes = constantBytes(line);
    }
  }
  return usage;
}

std::vector<Advisory> parseAdvisories(llvm::StringRef log) {
  std::vector<Advisory> advisories;
  for (llvm::StringRef line : linesOf(log)) {
    size_t at = line.find("(C75");
    if (at == llvm::StringRef::npos)
      continue;
    llvm::StringRef code = line.drop_front(at + 1).take_front(5);
    llvm::StringRef rest = line.drop_front(at + 1 + code.size());
    if (code.size() != 5 || !llvm::all_of(code.drop_front(), llvm::isDigit) ||
        !rest.consume_front(")"))
      continue;
    Advisory advisory{code.str(), rest.trim().str()};
    if (!llvm::is_contained(advisories, advisory))
      advisories.push_back(std::move(advisory));
  }
  return advisories;
}

PhaseTimes parsePhaseTimes(llvm::StringRef log) {
  // "name, phase, value, ms"
  PhaseTimes phases;
  for (llvm::StringRef line : linesOf(log)) {
    llvm::SmallVector<llvm::StringRef, 4> fields;
    line.split(fields, ", ");
    double ms = 0;
    if (fields.size() != 4 || fields[3].trim() != "ms" ||
        fields[2].trim().getAsDouble(ms))
      continue;
    if (fields[1].contains_insensitive("frontend"))
      phases.frontEndMs += ms;
    else if (fields[1].contains_insensitive("nvvm"))
      phases.nvvmMs += ms;
    else if (fields[1].contains_insensitive("ptx"))
      phases.ptxasMs += ms;
  }
  return phases;
}

} // namespace kiln
