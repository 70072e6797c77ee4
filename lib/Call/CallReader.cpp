//===- CallReader.cpp -----------------------------------------------------===//
#include "Call/CallReader.h"

#include "Call/LaunchProblem.h"
#include "Support/Error.h"

#include <cctype>

namespace kiln {

/// \p text with keys of \p schema replaced by what the struct calls them.
static std::string renameFields(llvm::StringRef text,
                                const RecordSchema &schema,
                                const FieldNames &names) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string renamed;
  while (!text.empty()) {
    llvm::StringRef word = text.take_while(isWord);
    int field = schema.find(word);
    renamed += field < 0 || names[field].empty() ? word.str() : names[field];
    text = text.drop_front(word.size());
    llvm::StringRef between = text.take_until(isWord);
    renamed += between;
    text = text.drop_front(between.size());
  }
  return renamed;
}

llvm::Expected<Problem> readProblem(const KernelFamily &family,
                                    const void *args, CallUse use,
                                    FamilyCall &call) {
  const RecordSchema &schema = family.problemSchema();
  FieldNames names;
  call.arguments = Arguments();
  call.arguments.problem = call.values;
  if (auto error = family.call()->explain(args, use, schema, call, names))
    return error;
  auto problem = makeProblem(family, Record(schema, call.fields()));
  if (problem)
    return problem;
  ErrorSummary refusal = summarize(problem.takeError());
  llvm::StringRef text = refusal.message;
  text.consume_front((schema.name() + ": ").str());
  refusal.message = renameFields(text, schema, names);
  return errorOf(refusal);
}

const KernelFamily *findFamily(const Registry &registry, kiln_family number) {
  for (const auto &family : registry.families())
    if (family->call() && family->call()->number == number)
      return family.get();
  return nullptr;
}

CallTable::CallTable(const Registry &registry) {
  for (const auto &family : registry.families()) {
    const CallReader *reader = family->call();
    if (!reader)
      continue;
    auto index = static_cast<size_t>(reader->number);
    targets.resize(std::max(targets.size(), index + 1));
    assert(!targets[index].family && "two families have one number");
    targets[index] = {family.get(), reader};
  }
}

} // namespace kiln
