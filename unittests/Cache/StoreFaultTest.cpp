// Faults that one process meets: files on the disk, their owners, and calls
// that fail. The numbers come from the list of faults that the cache must
// survive.
#include "Cache/Store.h"

#include "Cache/Prune.h"
#include "Cache/StoreTesting.h"

#include <doctest/doctest.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/Endian.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;

namespace {
/// A store with one good entry to damage and one to leave alone.
struct FaultFixture {
  TemporaryFolder folder;
  Warnings warnings;
  FaultyFileOps ops;
  std::unique_ptr<Store> store =
      openStore(folder / "cache", &ops, warnings.log());
  std::string path = pathOf(folder / "cache", Kind::Artifact, "key");
  std::string good;

  FaultFixture() {
    store->publish(Kind::Artifact, "key", {}, makePayload(1, 5000));
    store->publish(Kind::Artifact, "bystander", {}, "unharmed");
    good = readBytes(path);
  }

  bool bystanderIsWell() {
    auto entry = store->lookup(Kind::Artifact, "bystander");
    return entry && entry->payload == "unharmed";
  }

  /// Publishes, and is the entry found after that?
  bool heals() {
    auto result =
        store->publish(Kind::Artifact, "key", {}, makePayload(2, 5000));
    auto entry = openStore(folder / "cache")->lookup(Kind::Artifact, "key");
    return result.status == PublishStatus::Stored && entry &&
           entry->payload == makePayload(2, 5000);
  }

  std::vector<std::string> temporaries() {
    return filesIn(folder.path, ".tmp.");
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

TEST_CASE_FIXTURE(FaultFixture, "faults 1 to 4: damage is a miss that heals") {
  std::string huge = good, flipped = good;
  llvm::support::endian::write64le(&huge[32], 1ull << 63);
  flipped[good.size() - 100] ^= 1;
  std::vector<std::string> bad{"",
                               good.substr(0, 3),
                               good.substr(0, 64),
                               good.substr(0, good.size() - 1),
                               flipped,
                               good + "garbage",
                               std::string(good.size(), '\0'),
                               huge};
  for (size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    writeBytes(path, bad[i]);
    CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
    CHECK(store->statistics().damaged == i + 1);
    CHECK(store->statistics().removed == i + 1);
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(heals());
  }
  std::filesystem::resize_file(path, 1ull << 40); // a hole, nothing to read
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(heals());
  CHECK(bystanderIsWell());
  CHECK(warnings.lines.size() <= 6); // one for each kind of damage
  CHECK(warnings.mention(path));
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 5: nobody touches another version's files") {
  std::string other = good;
  llvm::support::endian::write32le(&other[8], 2);
  std::string otherTree = folder / "cache/v2/artifact/ab/file.kiln";
  writeBytes(path, other);
  writeBytes(otherTree, other);
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(readBytes(path) == other);
  for (const VerifyItem &item : store->verify())
    if (item.path == path)
      CHECK(item.state == VerifyItem::State::Foreign);
  CHECK(heals());
  CHECK(readBytes(otherTree) == other);
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 6: a good entry under another key's name") {
  std::string elsewhere = pathOf(folder / "cache", Kind::Artifact, "other");
  writeBytes(elsewhere, good);
  writeBytes(pathOf(folder / "cache", Kind::Record, "key"), good);
  int damaged = 0;
  for (const VerifyItem &item : store->verify())
    damaged += item.state == VerifyItem::State::Damaged;
  CHECK(damaged == 2);
  CHECK(store->list(Kind::Artifact).size() == 2);
  CHECK(store->list(Kind::Record).empty());
  CHECK_FALSE(store->lookup(Kind::Artifact, "other"));
  CHECK_FALSE(store->lookup(Kind::Record, "key"));
  CHECK(store->lookup(Kind::Artifact, "key"));
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 8: no plain file in place of the entry") {
  writeBytes(folder / "target", good);
  auto replaceBy = [&](auto make) {
    std::filesystem::remove_all(path);
    make();
    CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  };
  replaceBy([&] { std::filesystem::create_symlink(folder / "target", path); });
  CHECK(heals());
  CHECK(readBytes(folder / "target") == good);
  replaceBy([&] { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
  CHECK(heals());
  replaceBy([&] {
    // The path of an entry is too long for a socket's address.
    std::string name = folder / "socket";
    int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(server, reinterpret_cast<struct sockaddr *>(&address),
                   sizeof address) == 0);
    std::filesystem::rename(name, path);
    ::close(server);
  });
  CHECK(heals());
  CHECK(store->statistics().refused == 3);

  // A folder cannot be replaced by a file: memory serves.
  replaceBy([&] { std::filesystem::create_directory(path); });
  writeBytes(path + "/inside", "kept");
  CHECK(store->publish(Kind::Artifact, "key", {}, "new").status ==
        PublishStatus::Memory);
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "new");
  CHECK(readBytes(path + "/inside") == "kept");
  CHECK(temporaries().empty());
  CHECK(bystanderIsWell());
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 9: an entry that others own or may write") {
  ::chmod(path.c_str(), 0666);
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(warnings.mention("0666"));
  CHECK(heals());
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 12345, 0) == 0);
    CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
    CHECK(warnings.mention("owner 12345"));
    CHECK(heals());
  }
  CHECK(bystanderIsWell());
}

/// Opens a store on \p path, which must be refused with one note and work in
/// memory.
static std::string noteOfRefusal(const std::string &path) {
  Warnings warnings;
  auto store = openStore(path, nullptr, warnings.log());
  CHECK_FALSE(store->isPersistent());
  CHECK(store->publish(Kind::Artifact, "key", {}, "cubin").status ==
        PublishStatus::Memory);
  CHECK(store->lookup(Kind::Artifact, "key"));
  REQUIRE(store->notes().size() == 1);
  CHECK(warnings.lines == store->notes());
  CHECK(store->notes()[0].find("memory only") != std::string::npos);
  return store->notes()[0];
}

TEST_CASE("fault 9: a directory that others own or may write is refused") {
  TemporaryFolder folder;
  for (int mode : {0770, 0702, 01777}) {
    std::string path = folder / ("mode" + std::to_string(mode));
    ::mkdir(path.c_str(), 0700);
    ::chmod(path.c_str(), mode);
    std::string note = noteOfRefusal(path);
    CHECK(note.find(path) != std::string::npos);
    CHECK(note.find("owner " + std::to_string(::geteuid())) !=
          std::string::npos);
    CHECK(note.find(fmt::format("mode {:04o}", mode)) != std::string::npos);
    CHECK(filesIn(path).empty());
  }
  ::mkdir((folder / "real").c_str(), 0700);
  std::filesystem::create_symlink(folder / "real", folder / "link");
  CHECK(noteOfRefusal(folder / "link").find("symbolic link") !=
        std::string::npos);
  // A link of the user's own in the path is trusted.
  CHECK(openStore(folder / "link/cache")->isPersistent());
  if (::geteuid() != 0) {
    CHECK(noteOfRefusal("/usr").find("owner 0") != std::string::npos);
    return;
  }
  REQUIRE(::lchown((folder / "link").c_str(), 12345, 12345) == 0);
  CHECK(noteOfRefusal(folder / "link/cache").find("owner 12345") !=
        std::string::npos);
  ::mkdir((folder / "theirs").c_str(), 0700);
  REQUIRE(::chown((folder / "theirs").c_str(), 12345, 12345) == 0);
  CHECK(noteOfRefusal(folder / "theirs").find("owner 12345") !=
        std::string::npos);
}

TEST_CASE("fault 9: a folder on the way in which all may rename") {
  TemporaryFolder folder;
  ::mkdir((folder / "shared").c_str(), 0700);
  ::mkdir((folder / "shared/mine").c_str(), 0700);
  ::chmod((folder / "shared").c_str(), 0777);
  const std::string note = noteOfRefusal(folder / "shared/mine/cache");
  CHECK(note.find("0777") != std::string::npos);
  CHECK(note.find("sticky") != std::string::npos);
  // From a sticky folder only owners remove, and a group that may write has
  // been chosen.
  for (int mode : {01777, 0775}) {
    ::chmod((folder / "shared").c_str(), mode);
    CHECK(openStore(folder / "shared/mine/cache")->isPersistent());
  }
}

TEST_CASE("fault 9: the refusal of a folder says what to do") {
  TemporaryFolder folder;
  ::mkdir((folder / "open").c_str(), 0700);
  ::chmod((folder / "open").c_str(), 0775);
  CHECK(noteOfRefusal(folder / "open").find("chmod go-w") != std::string::npos);
  std::filesystem::create_symlink(folder / "open", folder / "link");
  CHECK(noteOfRefusal(folder / "link").find("name the folder that it points") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(FaultFixture, "fault 9: a directory that is opened to others "
                                "while in use") {
  ::chmod((folder / "cache").c_str(), 0777);
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
  CHECK(store->publish(Kind::Artifact, "key", {}, "new").status ==
        PublishStatus::Memory);
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "new");
  CHECK(readBytes(path) == good);
  CHECK(warnings.mention("0777"));
}

TEST_CASE_FIXTURE(FaultFixture,
                  "F18: a folder below the root that others may write "
                  "to, or a link in its place, is refused") {
  const std::filesystem::path shard = std::filesystem::path(path).parent_path();
  for (const std::filesystem::path &below :
       {shard, shard.parent_path(), shard.parent_path().parent_path()}) {
    CAPTURE(below.string());
    ::chmod(below.c_str(), 0777);
    Warnings told;
    auto fresh = openStore(folder / "cache", nullptr, told.log());
    CHECK_FALSE(fresh->lookup(Kind::Artifact, "key"));
    CHECK(told.mention(below.string() + " (owner"));
    auto result = fresh->publish(Kind::Artifact, "key", {}, "new");
    CHECK(result.status == PublishStatus::Memory);
    CHECK(result.reason.find("mode 0777) is writable by others") !=
          std::string::npos);
    // So later reasons tell the same, and not that it is read-only.
    CHECK(fresh->publish(Kind::Artifact, "other", {}, "new").reason ==
          result.reason);
    bool isFound = false;
    for (const VerifyItem &item : fresh->verify())
      isFound |= item.path == below && item.state == VerifyItem::State::Damaged;
    CHECK(isFound);
    ::chmod(below.c_str(), 0700);

    std::filesystem::rename(below, folder / "elsewhere");
    std::filesystem::create_directory_symlink(folder / "elsewhere", below);
    CHECK_FALSE(openStore(folder / "cache")->lookup(Kind::Artifact, "key"));
    std::filesystem::remove(below);
    std::filesystem::rename(folder / "elsewhere", below);
  }
  CHECK(readBytes(path) == good);
  CHECK(heals());
}

TEST_CASE("fault 9: whose read tiers are trusted") {
  if (::geteuid() != 0)
    return; // only root can make files for others
  TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0755);
  for (const char *name : {"root", "stranger", "open"}) {
    openStore(folder / name)->publish(Kind::Artifact, "key", {}, name);
    for (const auto &item :
         std::filesystem::recursive_directory_iterator(folder / name))
      ::chmod(item.path().c_str(), item.is_directory() ? 0755 : 0644);
    ::chmod((folder / name).c_str(), 0755);
  }
  REQUIRE(::chown((folder / "stranger").c_str(), 12345, 12345) == 0);
  ::chmod((folder / "open").c_str(), 0775);
  int failures = runProcesses(1, [&](int) {
    if (::setgid(54321) != 0 || ::setuid(54321) != 0)
      return false;
    StoreOptions options;
    options.readDirs = {folder / "stranger", folder / "open", folder / "root"};
    auto store = Store::open(std::move(options));
    auto entry = store->lookup(Kind::Artifact, "key");
    return store->notes().size() == 2 && entry && entry->payload == "root";
  });
  CHECK(failures == 0);
}

TEST_CASE_FIXTURE(FaultFixture, "fault 11: whichever call of a lookup fails") {
  for (int error : {EIO, ESTALE, ENOENT, EACCES, EINTR, EMFILE})
    for (bool sticky : {false, true})
      for (int nth = 1;; ++nth) {
        ops.arm(nth, error, sticky);
        auto entry = store->lookup(Kind::Artifact, "key");
        bool reached = ops.calls >= nth;
        ops.disarm();
        CAPTURE(error);
        CAPTURE(nth);
        if (entry)
          CHECK(entry->payload == makePayload(1, 5000));
        if (!reached || (error == EINTR && !sticky))
          CHECK(entry);
        if (!reached)
          break;
      }
  // A failing disk is no reason to delete what is on it.
  CHECK(readBytes(path) == good);
  CHECK(store->statistics().damaged == 0);
  CHECK(warnings.lines.size() <= 6);
  ops.shortTransfers = true;
  CHECK(store->lookup(Kind::Artifact, "key"));
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 24: foreign files are ignored and kept") {
  std::string shard = std::filesystem::path(path).parent_path().string();
  std::vector<std::string> foreign{shard + "/.nfs000001",
                                   shard + "/.tmp.1.host.0123",
                                   shard + "/README",
                                   shard + "/short.kiln",
                                   folder / "cache/README",
                                   folder / "cache/v1/README",
                                   folder / "cache/v1/artifact/README",
                                   folder / "cache/v1/artifact/zz/file.kiln"};
  for (const std::string &file : foreign)
    writeBytes(file, "not ours");
  CHECK(store->list(Kind::Artifact).size() == 2);
  int foreigners = 0, damaged = 0;
  for (const VerifyItem &item : store->verify()) {
    foreigners += item.state == VerifyItem::State::Foreign;
    damaged += item.state == VerifyItem::State::Damaged;
  }
  CHECK(foreigners == 6); // four in the shard, README and the folder zz
  CHECK(damaged == 0);
  CHECK(heals());
  CHECK(bystanderIsWell());
  for (const std::string &file : foreign)
    CHECK(readBytes(file) == "not ours");
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Publishes under key with the n-th call failing, for all n; \p prepare is
/// called before each round.
static void publishUnderFaults(FaultFixture &fixture, std::vector<int> errors,
                               const std::function<void()> &prepare) {
  for (int error : errors)
    for (bool sticky : {false, true})
      for (int nth = 1;; ++nth) {
        prepare();
        auto store = openStore(fixture.folder / "cache", &fixture.ops);
        fixture.ops.arm(nth, error, sticky);
        auto result =
            store->publish(Kind::Artifact, "key", {}, makePayload(2, 5000));
        bool reached = fixture.ops.calls >= nth;
        fixture.ops.disarm();
        CAPTURE(error);
        CAPTURE(nth);
        CAPTURE(sticky);
        CHECK(result.status != PublishStatus::Dropped);
        if (!reached || (error == EINTR && !sticky))
          CHECK(result.status == PublishStatus::Stored);
        CHECK(result.reason.empty() ==
              (result.status == PublishStatus::Stored));
        // This process goes on with its own bytes,
        auto own = store->lookup(Kind::Artifact, "key");
        CHECK((own && own->payload == makePayload(2, 5000)));
        // the next one finds an old entry, a new one or none,
        auto next =
            openStore(fixture.folder / "cache")->lookup(Kind::Artifact, "key");
        if (result.status == PublishStatus::Stored)
          CHECK((next && next->payload == makePayload(2, 5000)));
        else if (next)
          CHECK((isWhole(next->payload) && next->payload.size() == 5000));
        // and nothing is left behind.
        CHECK(fixture.temporaries().empty());
        if (!reached)
          break;
      }
}

TEST_CASE_FIXTURE(FaultFixture, "fault 12: whichever call of a publish fails") {
  publishUnderFaults(
      *this, {ENOSPC, EDQUOT, EIO, EROFS, EACCES, EMFILE, ENAMETOOLONG, EINTR},
      [&] { writeBytes(path, good); });
  CHECK(bystanderIsWell());
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 12: whichever call fails in a new cache") {
  publishUnderFaults(*this, {ENOSPC, EACCES, EINTR},
                     [&] { std::filesystem::remove_all(folder / "cache/v1"); });
}

TEST_CASE_FIXTURE(FaultFixture, "fault 12: whichever call of an update fails") {
  auto append = [](std::optional<llvm::StringRef> old) {
    return (old ? old->str() : "") + "b";
  };
  for (int error : {ENOSPC, EIO, EACCES, ENOLCK, EINTR})
    for (int nth = 1;; ++nth) {
      auto fresh = openStore(folder / "cache", &ops);
      fresh->publish(Kind::Record, "key", {}, "a");
      ops.arm(nth, error);
      auto result = fresh->update(Kind::Record, "key", {}, append);
      bool reached = ops.calls >= nth;
      ops.disarm();
      CAPTURE(error);
      CAPTURE(nth);
      CHECK(result.status != PublishStatus::Dropped);
      std::string own = fresh->lookup(Kind::Record, "key")->payload;
      if (result.status == PublishStatus::Stored)
        CHECK(own == "ab");
      // An entry that could not be read is not lost.
      auto next = openStore(folder / "cache")->lookup(Kind::Record, "key");
      CHECK((next && next->payload[0] == 'a'));
      CHECK(temporaries().empty());
      if (!reached) {
        CHECK(own == "ab");
        break;
      }
    }
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 12: opening with whichever call failing") {
  for (int error : {EIO, EACCES, ENOENT, EINTR})
    for (int nth = 1;; ++nth) {
      ops.arm(nth, error);
      auto fresh = openStore(folder / "cache", &ops);
      bool reached = ops.calls >= nth;
      ops.disarm();
      CHECK(fresh->notes().size() == (fresh->isPersistent() ? 0 : 1));
      CHECK(fresh->publish(Kind::Portfolio, "key", {}, "x").status !=
            PublishStatus::Dropped);
      CHECK(fresh->lookup(Kind::Portfolio, "key"));
      if (!reached)
        break;
    }
}

namespace {
/// Where a file that is open elsewhere can be neither replaced nor removed.
struct BusyFileOps : FileOps {
  int rename(int folder, const char *from, const char *to) override {
    if (!isBusy)
      return FileOps::rename(folder, from, to);
    errno = EBUSY;
    return -1;
  }
  int unlink(int folder, const char *path) override {
    if (!isBusy)
      return FileOps::unlink(folder, path);
    errno = EBUSY;
    return -1;
  }
  bool isBusy = true;
};
} // namespace

TEST_CASE("fault 19: a file that cannot be removed is left, and goes later") {
  TemporaryFolder folder;
  BusyFileOps files;
  auto store = openStore(folder / "cache", &files);
  CHECK(store->publish(Kind::Artifact, "key", {}, "cubin").status ==
        PublishStatus::Memory);
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "cubin");
  std::vector<std::string> left = filesIn(folder / "cache", ".tmp.");
  REQUIRE(left.size() == 1);
  std::filesystem::last_write_time(
      left[0],
      std::filesystem::file_time_type::clock::now() - std::chrono::seconds(60));
  CHECK(store->prune({}).failed == 1);
  files.isBusy = false;
  CHECK(store->publish(Kind::Artifact, "key", {}, "cubin").status ==
        PublishStatus::Stored);
  store->prune({});
  CHECK(filesIn(folder / "cache", ".tmp.").empty());
  CHECK(openStore(folder / "cache")->lookup(Kind::Artifact, "key"));
}

TEST_CASE_FIXTURE(FaultFixture, "fault 13: a full disk warns once and is tried "
                                "again") {
  ops.failAlways("write", ENOSPC);
  for (int i = 0; i < 3; ++i)
    CHECK(store->publish(Kind::Artifact, "key", {}, "new").status ==
          PublishStatus::Memory);
  CHECK(readBytes(path) == good);
  CHECK(warnings.lines.size() == 1);
  CHECK(warnings.mention("No space left"));
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "new");
  ops.disarm();
  CHECK(store->isPersistent());
  CHECK(heals());
  CHECK(store->lookup(Kind::Artifact, "key")->payload == makePayload(2, 5000));
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 16: a read-only directory serves hits and is "
                  "not written to twice") {
  ops.failAlways("create", EROFS);
  CHECK(store->publish(Kind::Artifact, "new", {}, "new").status ==
        PublishStatus::Memory);
  CHECK_FALSE(store->isPersistent());
  ops.failAlways("create", EROFS); // counts again
  for (int i = 0; i < 3; ++i) {
    CHECK(store->publish(Kind::Artifact, "new", {}, "newer").status ==
          PublishStatus::Memory);
    store->update(Kind::Record, "record", {},
                  [](std::optional<llvm::StringRef>) { return "r"; });
  }
  CHECK(ops.writingCalls == 0);
  CHECK(warnings.lines.size() == 1);
  CHECK(bystanderIsWell());
  CHECK(store->lookup(Kind::Artifact, "new")->payload == "newer");
}

TEST_CASE_FIXTURE(FaultFixture, "fault 17: the cache is removed while in use") {
  for (const char *part : {"cache", "cache/v1", "cache/v1/artifact"}) {
    std::filesystem::remove_all(folder / part);
    CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
    CHECK(store->list(Kind::Artifact).empty());
    CHECK(heals());
    CHECK(store
              ->update(Kind::Record, "record", {},
                       [](std::optional<llvm::StringRef>) { return "r"; })
              .status == PublishStatus::Stored);
  }
  CHECK(warnings.lines.empty());
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 18: a rename that fails and took effect, a "
                  "file that stays invisible") {
  ops.renameSucceedsSilently = true;
  auto result = store->publish(Kind::Artifact, "key", {}, "new");
  CHECK(result.status == PublishStatus::Memory);
  ops.renameSucceedsSilently = false;
  CHECK(store->lookup(Kind::Artifact, "key")->payload == "new");
  CHECK(temporaries().empty());

  ops.arm(0, 0);
  REQUIRE(store->publish(Kind::Artifact, "key", {}, "newer").status ==
          PublishStatus::Stored);
  ops.failAlways("open", ENOENT);
  CHECK_FALSE(store->lookup(Kind::Artifact, "key"));
}

TEST_CASE_FIXTURE(FaultFixture, "fault 23: updates work without lock support") {
  SUBCASE("the file system has no locks") { ops.failAlways("tryLock", ENOLCK); }
  SUBCASE("something else lies at the lock's path") {
    writeBytes(
        std::filesystem::path(pathOf(folder / "cache", Kind::Record, "record"))
                .parent_path()
                .string() +
            "/.lock/file",
        "not ours");
  }
  for (int i = 0; i < 3; ++i)
    CHECK(store
              ->update(Kind::Record, "record", {},
                       [](std::optional<llvm::StringRef> old) {
                         return (old ? old->str() : "") + "x";
                       })
              .status == PublishStatus::Stored);
  CHECK(store->lookup(Kind::Record, "record")->payload == "xxx");
  CHECK(store->statistics().unlockedUpdates == 3);
}

TEST_CASE_FIXTURE(FaultFixture,
                  "F2: who cannot ask for a lock replaces nothing") {
  REQUIRE(store->publish(Kind::Record, "record", {}, "first").status ==
          PublishStatus::Stored);
  auto add = [](std::optional<llvm::StringRef> old) {
    return (old ? old->str() : "") + "+";
  };
  ops.failAlways("tryLock", ENOSPC);
  PublishResult result = store->update(Kind::Record, "record", {}, add);
  CHECK(result.status == PublishStatus::Memory);
  CHECK(result.reason.find("cannot lock ") == 0);
  CHECK(result.reason.find(std::strerror(ENOSPC)) != std::string::npos);
  PruneRules rules;
  rules.only = Kind::Record;
  rules.maxBytes = 0;
  CHECK(store->prune(rules).removed.empty());
  ops.disarm();
  CHECK(store->update(Kind::Record, "record", {}, add).status ==
        PublishStatus::Stored);
  CHECK(store->lookup(Kind::Record, "record")->payload == "first++");
}

TEST_CASE_FIXTURE(FaultFixture,
                  "fault 8: an update replaces what is no plain file") {
  path = pathOf(folder / "cache", Kind::Record, "record");
  REQUIRE(store->publish(Kind::Record, "record", {}, "lost").status ==
          PublishStatus::Stored);
  for (bool isLink : {true, false}) {
    CAPTURE(isLink);
    std::filesystem::remove(path);
    if (isLink)
      std::filesystem::create_symlink(folder / "nowhere", path);
    else
      REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(store
              ->update(Kind::Record, "record", {},
                       [](std::optional<llvm::StringRef> old) {
                         return old ? old->str() : "new";
                       })
              .status == PublishStatus::Stored);
    CHECK(store->lookup(Kind::Record, "record")->payload == "new");
  }
}

TEST_CASE_FIXTURE(FaultFixture,
                  "F16: what cannot be looked into is not sound") {
  const std::filesystem::path shard = std::filesystem::path(path).parent_path();
  auto isDamaged = [&](const std::string &where, llvm::StringRef why) {
    return llvm::any_of(store->verify(), [&](const VerifyItem &item) {
      return item.state == VerifyItem::State::Damaged && item.path == where &&
             llvm::StringRef(item.reason).contains(why);
    });
  };
  std::filesystem::rename(shard, folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere", shard);
  CHECK(isDamaged(shard, "symbolic link"));
  PruneResult pruned = store->prune({});
  CHECK(pruned.failed == 1);
  CHECK(pruned.failure.find("symbolic link") != std::string::npos);
  std::filesystem::remove(shard);
  std::filesystem::rename(folder / "elsewhere", shard);
  ops.failAlways("open", EMFILE);
  CHECK(isDamaged(folder / "cache", std::strerror(EMFILE)));
}

TEST_CASE("F7: where locks are slow, nobody claims a second time") {
  struct SlowLocks : FileOps {
    int locks = 0;
    int tryLock(int fd, off_t offset) override {
      ++locks;
      std::this_thread::sleep_for(std::chrono::milliseconds(1050));
      return FileOps::tryLock(fd, offset);
    }
  } slow;
  TemporaryFolder folder;
  auto store = openStore(folder / "cache", &slow);
  CHECK(store->claim(Kind::Artifact, "a").state == Claim::State::Mine);
  CHECK(store->claim(Kind::Artifact, "b").state == Claim::State::None);
  CHECK(slow.locks == 1);
}

TEST_CASE_FIXTURE(FaultFixture,
                  "without a lock, what others publish meanwhile is "
                  "merged too") {
  ops.failAlways("tryLock", ENOLCK);
  int runs = 0;
  store->update(Kind::Record, "record", {},
                [&](std::optional<llvm::StringRef> old) {
                  if (++runs == 1)
                    openStore(folder / "cache")
                        ->publish(Kind::Record, "record", {}, "other");
                  return (old ? old->str() : "") + "+own";
                });
  CHECK(runs == 2);
  CHECK(store->lookup(Kind::Record, "record")->payload == "other+own");
}

TEST_CASE("the log may use the store: no lock is held when it is called") {
  TemporaryFolder folder;
  FaultyFileOps ops;
  Store *reentered = nullptr;
  int calls = 0;
  Log log([&](LogLevel, llvm::StringRef) {
    ++calls;
    reentered->update(Kind::Record, "other", {},
                      [](std::optional<llvm::StringRef>) { return "x"; });
  });
  auto store = openStore(folder.path, &ops, log);
  reentered = store.get();
  ops.failAlways("write", ENOSPC);
  store->update(Kind::Record, "key", {},
                [](std::optional<llvm::StringRef>) { return "x"; });
  CHECK(calls == 1);
  CHECK(store->statistics().unlockedUpdates == 0);
}

TEST_CASE_FIXTURE(FaultFixture,
                  "an update in memory gives way to a newer file") {
  auto append = [](const char *text) {
    return [text](std::optional<llvm::StringRef> old) {
      return (old ? old->str() : "") + text;
    };
  };
  store->update(Kind::Record, "record", {}, append("a"));
  ops.failAlways("write", EIO);
  store->update(Kind::Record, "record", {}, append("b"));
  store->update(Kind::Record, "record", {}, append("c"));
  ops.disarm();
  CHECK(store->lookup(Kind::Record, "record")->payload == "abc");
  SUBCASE("nobody else has written: all of it reaches the disk") {
    store->update(Kind::Record, "record", {}, append("d"));
    CHECK(
        openStore(folder / "cache")->lookup(Kind::Record, "record")->payload ==
        "abcd");
  }
  SUBCASE("another process has written: its records are not lost") {
    openStore(folder / "cache")
        ->update(Kind::Record, "record", {}, append("other"));
    CHECK(store->lookup(Kind::Record, "record")->payload == "aother");
    store->update(Kind::Record, "record", {}, append("d"));
    CHECK(
        openStore(folder / "cache")->lookup(Kind::Record, "record")->payload ==
        "aotherd");
  }
}
