//===- ProfileReport.h - where device time goes ---------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "cli/Report.h"
#include "kiln/ProfileData.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// The things that rows of a profile's table stand for.
enum class ProfileBy { Kernel, Range, Layer, Step, Device };

/// The names that --by takes, in the order of ProfileBy.
inline constexpr const char *kProfileByNames[] = {"kernel", "range", "layer",
                                                  "step", "device"};

/// The name of a kernel as people read it: family and config of a kernel of
/// Kiln, else the function's name in its source, without parameters.
std::string shownKernel(const Registry &registry, llvm::StringRef name);

/// One row of the table.
struct ProfileRow {
  std::string shown;                     ///< the cell that names it
  const ProfiledWork *longest = nullptr; ///< with the most time
  ProfiledTimes times;
};

class ProfileReport final : public Report {
public:
  struct Options {
    ProfileBy by = ProfileBy::Kernel;
    size_t top = 20;  ///< rows of the table; the others are one
    size_t width = 0; ///< columns of the table; 0: as many as it takes
  };

  /// \p data and \p registry must outlive it.
  ProfileReport(const ProfileData &data, const Registry &registry,
                const Options &options);

  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  /// The rows as CSV, the most time first.
  std::string toCsv() const;

private:
  std::string rowNameOf(const ProfiledWork &work) const;
  void printHead(llvm::raw_ostream &os) const;
  void printTable(llvm::raw_ostream &os) const;
  llvm::json::Object rowToJson(const ProfileRow &row) const;
  double shareOf(const ProfiledTimes &times) const;

  const ProfileData &data;
  const Registry &registry;
  const Options options;
  std::vector<ProfileRow> rows; ///< the most time first
  ProfiledTimes all;
};

/// \p text in at most \p columns: its middle becomes "...". 0: no limit.
std::string cutMiddle(llvm::StringRef text, size_t columns);

} // namespace kiln::cli
