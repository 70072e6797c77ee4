//===- Inspect.cpp --------------------------------------------------------===//
#include "Cache/Inspect.h"

#include "Support/EnumName.h"

#include <algorithm>
#include <cstring>

namespace kiln::cache {

llvm::StringRef nameOf(VerifyItem::State state) {
  using enum VerifyItem::State;
  static constexpr EnumName<VerifyItem::State> kNames[] = {
      {Ok, "ok"},
      {Damaged, "damaged"},
      {Temporary, "temporary"},
      {Foreign, "foreign"}};
  return nameIn(kNames, state, "unknown");
}

llvm::StringRef describe(ReadStatus status) {
  using enum ReadStatus;
  static constexpr EnumName<ReadStatus> kNames[] = {
      {NotRegular, "it is no plain file"},
      {WrongOwner, "it belongs to another user"},
      {WrongMode, "others may write to it"},
      {TooLarge, "it is larger than any entry"}};
  return nameIn(kNames, status, "it cannot be read");
}

static std::chrono::system_clock::time_point
modifiedAt(const struct stat &info) {
  auto sinceEpoch = std::chrono::seconds(info.st_mtim.tv_sec) +
                    std::chrono::nanoseconds(info.st_mtim.tv_nsec);
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          sinceEpoch));
}

/// Reads and checks the head of an open file.
static EntryHead readHead(FileOps &files, const CheckedFile &file) {
  uint64_t fileBytes = static_cast<uint64_t>(file.info.st_size);
  // Most heads fit into the first read.
  constexpr uint64_t kFirstBytes = 4096;
  std::string start;
  int failure =
      readUpTo(files, file.fd.get(), std::min(kFirstBytes, fileBytes), start);
  uint64_t wanted = headBytes(start, fileBytes);
  if (!failure && start.size() < wanted)
    failure = readUpTo(files, file.fd.get(), wanted, start);
  if (failure) {
    EntryHead head;
    head.fault = EntryFault::Truncated;
    return head;
  }
  return decodeHead(start, fileBytes);
}

void listTier(FileOps &files, const Tier &tier, Kind kind,
              std::vector<EntryInfo> &into) {
  tier.walk(kind, [&](const Tier::Found &found) {
    if (found.entryName.empty())
      return;
    CheckedFile file =
        openChecked(files, found.folder, found.name.c_str(), tier.rules());
    if (file.status != ReadStatus::Ok)
      return;
    EntryHead head = readHead(files, file);
    if (head.fault != EntryFault::None || head.kind != kind ||
        fileNameOf(kind, head.key) != found.entryName)
      return;
    EntryInfo info;
    info.kind = kind;
    info.tier = tier.kind();
    info.path = found.path;
    info.key = std::move(head.key);
    info.attributes = std::move(head.attributes);
    info.payloadBytes = head.payloadBytes;
    info.fileBytes = static_cast<uint64_t>(file.info.st_size);
    info.modified = modifiedAt(file.info);
    into.push_back(std::move(info));
  });
}

/// Reads and judges one file.
static VerifyItem verifyFile(FileOps &files, const Tier &tier, Kind kind,
                             const Tier::Found &found) {
  VerifyItem item;
  item.tier = tier.kind();
  item.kind = kind;
  item.path = found.path;
  auto judge = [&](VerifyItem::State state, llvm::StringRef reason) {
    item.state = state;
    item.reason = reason.str();
    return item;
  };
  if (!found.reason.empty())
    return judge(VerifyItem::State::Damaged, found.reason);
  if (isTemporaryName(found.name))
    return judge(VerifyItem::State::Temporary,
                 "of a writer, or left by one that was killed: prune then "
                 "removes it");
  if (found.entryName.empty())
    return judge(VerifyItem::State::Foreign, "not a file of the cache");
  CheckedFile file =
      openChecked(files, found.folder, found.name.c_str(), tier.rules());
  if (file.status == ReadStatus::Failed)
    return judge(VerifyItem::State::Damaged, std::strerror(file.errnoValue));
  if (file.status != ReadStatus::Ok)
    return judge(VerifyItem::State::Damaged, describe(file.status));
  std::string bytes;
  if (int failure = readUpTo(files, file.fd.get(),
                             static_cast<uint64_t>(file.info.st_size), bytes))
    return judge(VerifyItem::State::Damaged, std::strerror(failure));
  DecodedEntry decoded = decodeEntry(std::move(bytes), kind, std::nullopt);
  if (decoded.fault == EntryFault::None &&
      fileNameOf(kind, decoded.entry.key) != found.entryName)
    decoded.fault = EntryFault::OtherKey;
  if (decoded.fault != EntryFault::None)
    return judge(isForeign(decoded.fault) ? VerifyItem::State::Foreign
                                          : VerifyItem::State::Damaged,
                 nameOf(decoded.fault));
  item.key = std::move(decoded.entry.key);
  return item;
}

void verifyTier(FileOps &files, const Tier &tier,
                std::vector<VerifyItem> &into) {
  for (Kind kind : kAllKinds)
    tier.walk(kind, [&](const Tier::Found &found) {
      into.push_back(verifyFile(files, tier, kind, found));
    });
}

} // namespace kiln::cache
