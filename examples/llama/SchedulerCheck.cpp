//===- SchedulerCheck.cpp - what always holds of a scheduler --------------===//
#include "Scheduler.h"

#include "Sequence.h"

#include <stdexcept>
#include <string>

namespace llama {

void Scheduler::check() const {
  const auto expect = [](bool holds, const char *what, SequenceId id) {
    if (!holds)
      throw std::logic_error("sequence " + std::to_string(id) + ": " + what);
  };
  pages.check();
  std::vector<int64_t> users(static_cast<size_t>(pages.capacity()) + 1);
  SequenceId last = 0;
  for (const Sequence *sequence : running) {
    expect(sequence->id > last, "runs before an older one", sequence->id);
    last = sequence->id;
    expect(sequence->remaining() == (sequence->scheduled > 0 ? 0 : 1) ||
               sequence == running.back(),
           "computes its prompt and is not the youngest", sequence->id);
    expect(sequence->pageCount() ==
               pagesFor(sequence->computed + sequence->scheduled),
           "has more or fewer pages than tokens need", sequence->id);
    for (const PageId page : sequence->pages)
      ++users[static_cast<size_t>(page)];
  }
  for (const Sequence *sequence : waiting) {
    expect(sequence->id > last, "waits before an older one", sequence->id);
    last = sequence->id;
    expect(sequence->pages.empty() && sequence->computed == 0,
           "waits and has pages", sequence->id);
  }
  expect(sequences.size() == running.size() + waiting.size(),
         "a sequence is lost", last);
  for (PageId page = 0; page <= pages.capacity(); ++page)
    expect(users[static_cast<size_t>(page)] == pages.users(page),
           "a page has other users than its sequences", page);
}

} // namespace llama
