//===- Checkpoint.h - a checkpoint of one or several files ----------------===//
//
// The tensors of a model by name, in mapped files. Safetensors.h checks their
// headers; this file follows the index from tensors to files.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_CHECKPOINT_H
#define KILN_EXAMPLES_LLAMA_CHECKPOINT_H

#include "DType.h"
#include "MappedFile.h"
#include "Safetensors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

/// A tensor of a checkpoint. Its bytes lie in a mapped file, which the
/// Checkpoint keeps.
struct Tensor {
  DType dtype = DType::U8;
  std::vector<int64_t> shape; ///< Empty for a scalar.
  /// Only as aligned as the writer of the file made it: copy, do not cast.
  const std::byte *data = nullptr;
  uint64_t bytes = 0;

  int64_t elements() const;
};

/// "[2, 3]", for messages.
std::string shapeText(const std::vector<int64_t> &shape);

/// A checkpoint of one file or of several with an index. Not thread-safe while
/// it is opened; const members may be called from any thread.
class Checkpoint {
public:
  /// Opens a `.safetensors` file, an index (`*.safetensors.index.json`), or a
  /// folder with `model.safetensors.index.json` or `model.safetensors`. Maps
  /// the files and checks all headers; reads no data. Throws Error.
  explicit Checkpoint(const std::string &path);

  /// Throws Error for a name that is not in the checkpoint.
  const Tensor &tensor(std::string_view name) const;

  /// All tensors by name. With an index, the tensors that it names.
  const std::map<std::string, Tensor, std::less<>> &tensors() const {
    return byName;
  }

  bool has(std::string_view name) const { return byName.count(name) != 0; }

  /// Removes a tensor, whose data stays. Throws Error if it is not there.
  Tensor take(std::string_view name);

  /// Adds \p tensor, whose data lies in one of the files. Throws Error if there
  /// is one of that name.
  void put(const std::string &name, const Tensor &tensor);

  const std::string &path() const { return source; }

private:
  SafetensorsHeader openFile(const std::string &path);
  void openSingle(const std::string &path);
  void openIndex(const std::string &path);

  std::string source;
  std::vector<std::unique_ptr<MappedFile>> files;
  std::map<std::string, Tensor, std::less<>> byName;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_CHECKPOINT_H
