//===- SafetensorsWriter.cpp - writing a checkpoint of one file -----------===//
#include "SafetensorsWriter.h"

#include "Error.h"
#include "Json.h"
#include "Safetensors.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace llama {

namespace {

/// The header's JSON, padded so that the data begins at a multiple of 8 bytes;
/// adds up the bytes of data in \p dataBytes.
std::string headerText(const std::vector<TensorDeclaration> &tensors,
                       const std::map<std::string, std::string> &metadata,
                       const std::string &path, uint64_t &dataBytes) {
  auto header = nlohmann::json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  for (const TensorDeclaration &tensor : tensors) {
    const std::string source = tensorSource(path, tensor.name);
    if (tensor.name.empty() || tensor.name == "__metadata__" ||
        tensor.name.find('\0') != std::string::npos)
      throw Error(source + ": is not a name for a tensor");
    if (header.contains(tensor.name))
      throw Error(source + ": is declared twice");
    for (const int64_t size : tensor.shape)
      if (size < 0)
        throw Error(source + ": a size of " + std::to_string(size));
    const uint64_t begin = dataBytes;
    // Each is below 2^60, so the sum cannot wrap before it exceeds the bound.
    dataBytes += tensorBytes(tensor.dtype, tensor.shape, source);
    if (dataBytes > INT64_MAX)
      throw Error(source + ": ends beyond 2^63 bytes");
    header[tensor.name] = {{"dtype", nameOf(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, dataBytes}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception &error) {
    // A name that is not UTF-8.
    throw Error(path + ": " + printable(error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

} // namespace

SafetensorsWriter::SafetensorsWriter(
    const std::string &path, const std::vector<TensorDeclaration> &tensors,
    const std::map<std::string, std::string> &metadata)
    : path(path), temporary(path + ".partial." + std::to_string(getpid())) {
  const std::string text = headerText(tensors, metadata, path, remainingBytes);
  file = std::fopen(temporary.c_str(), "wb");
  if (!file)
    fail("cannot be created");
  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  try {
    put(length, sizeof(length));
    put(text.data(), text.size());
  } catch (const Error &) {
    std::fclose(file); // No destructor runs for this object.
    std::remove(temporary.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file) {
    std::fclose(file);
    std::remove(temporary.c_str());
  }
}

void SafetensorsWriter::write(const void *data, uint64_t bytes) {
  if (bytes > remainingBytes)
    throw Error(path + ": " + std::to_string(bytes) +
                " bytes of data, expected at most " +
                std::to_string(remainingBytes));
  put(data, bytes);
  remainingBytes -= bytes;
}

void SafetensorsWriter::finish() {
  if (remainingBytes != 0)
    throw Error(path + ": " + std::to_string(remainingBytes) +
                " bytes of data are missing");
  if (std::fflush(file) != 0)
    fail("cannot be written");
  const int closed = std::fclose(file);
  file = nullptr;
  if (closed != 0 || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    errno = error;
    fail("cannot be written");
  }
}

void SafetensorsWriter::put(const void *data, uint64_t bytes) {
  if (bytes != 0 && std::fwrite(data, 1, bytes, file) != bytes)
    fail("cannot be written");
}

void SafetensorsWriter::fail(const char *action) const {
  throw Error(path + ": " + action + ": " + std::strerror(errno));
}

} // namespace llama
