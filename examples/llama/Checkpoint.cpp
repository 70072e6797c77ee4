//===- Checkpoint.cpp - a checkpoint of one or several files --------------===//
#include "Checkpoint.h"

#include "ConfigReader.h"
#include "Error.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostIndexBytes = 64 << 20;
constexpr const char *kIndexName = "model.safetensors.index.json";
constexpr const char *kFileName = "model.safetensors";

/// A file beside the index: the name must not lead elsewhere.
bool isPlainFileName(const std::string &name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

} // namespace

int64_t Tensor::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape)
    product *= size;
  return product;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (const int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

Checkpoint::Checkpoint(const std::string &path) : source(path) {
  namespace fs = std::filesystem;
  const std::string_view index = ".index.json";
  std::error_code ignored; // A file that cannot be seen is not there.
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path + "/" + kIndexName, ignored))
      openIndex(path + "/" + kIndexName);
    else if (fs::exists(path + "/" + kFileName, ignored))
      openSingle(path + "/" + kFileName);
    else
      throw Error(path + ": has neither " + kIndexName + " nor " + kFileName);
  } else if (path.size() > index.size() &&
             path.compare(path.size() - index.size(), index.size(), index) ==
                 0) {
    openIndex(path);
  } else {
    openSingle(path);
  }
}

SafetensorsHeader Checkpoint::openFile(const std::string &path) {
  files.push_back(std::make_unique<MappedFile>(path));
  return parseSafetensors(files.back()->data(), files.back()->bytes(), path);
}

void Checkpoint::openSingle(const std::string &path) {
  const SafetensorsHeader header = openFile(path);
  const std::byte *data = files.back()->data() + header.dataOffset;
  for (const auto &[name, entry] : header.entries)
    byName[name] = {entry.dtype, entry.shape, data + entry.begin,
                    entry.end - entry.begin};
}

void Checkpoint::openIndex(const std::string &path) {
  const Json parsed = parseJson(readText(path, kMostIndexBytes), path);
  const Json *map = ConfigReader(parsed, path).find("weight_map");
  if (!map || !map->is_object())
    throw Error(path + ": has no weight_map");

  // The tensors of each shard, so that every shard is opened once.
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto &item : map->items()) {
    checkTensorName(item.key(), path);
    if (!item.value().is_string() ||
        !isPlainFileName(item.value().get_ref<const std::string &>()))
      throw Error(tensorSource(path, item.key()) + ": " + shown(item.value()) +
                  " is not the name of a file beside the index");
    shards[item.value().get<std::string>()].push_back(item.key());
  }
  const auto folder = std::filesystem::path(path).parent_path();
  for (const auto &[file, names] : shards) {
    const std::string shard = (folder / file).string();
    const SafetensorsHeader header = openFile(shard);
    const std::byte *data = files.back()->data() + header.dataOffset;
    for (const std::string &name : names) {
      const auto found = header.entries.find(name);
      if (found == header.entries.end())
        throw Error(tensorSource(shard, name) +
                    ": is not in this file, although " + path + " says so");
      const TensorEntry &entry = found->second;
      byName[name] = {entry.dtype, entry.shape, data + entry.begin,
                      entry.end - entry.begin};
    }
  }
}

const Tensor &Checkpoint::tensor(std::string_view name) const {
  const auto found = byName.find(name);
  if (found == byName.end())
    throw Error(tensorSource(source, std::string(name)) + ": is missing");
  return found->second;
}

Tensor Checkpoint::take(std::string_view name) {
  const Tensor taken = tensor(name);
  byName.erase(byName.find(name));
  return taken;
}

void Checkpoint::put(const std::string &name, const Tensor &tensor) {
  if (!byName.emplace(name, tensor).second)
    throw Error(tensorSource(source, name) + ": is there in two forms");
}

} // namespace llama
