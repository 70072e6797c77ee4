//===- BackgroundCalls.cpp ------------------------------------------------===//
#include "kiln-bench/BackgroundCalls.h"

#include "compare/BenchOutput.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln::cli {

/// Element \p index of both operands: from -2 to 2.
static int integerAt(uint64_t index) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  return static_cast<int>(((index + 1) * kMix >> 40) % 5) - 2;
}

static uint64_t sizeOf(DType type) {
  return static_cast<uint64_t>(bitsOf(type)) / 8;
}

/// The bits of \p value in \p type, for integers from -2 to 2.
static uint32_t bitsOf(int value, DType type) {
  constexpr uint16_t kHalf[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000};
  if (type == DType::FP16)
    return kHalf[value + 2];
  const auto number = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return type == DType::BF16 ? bits >> 16 : bits;
}

/// \p count elements as they lie in memory.
static std::vector<uint8_t> integers(uint64_t count, DType type) {
  const uint64_t size = sizeOf(type);
  std::vector<uint8_t> bytes(count * size);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t bits = bitsOf(integerAt(i), type);
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

uint64_t LayerProducts::Product::rowBytes() const {
  return static_cast<uint64_t>(n) * sizeOf(type);
}

//===----------------------------------------------------------------------===//
// Layers and memory
//===----------------------------------------------------------------------===//

llvm::Expected<LayerProducts>
LayerProducts::create(const Driver &driver, llvm::ArrayRef<Layer> layers,
                      const NamedRange &range, CudaStream stream) {
  LayerProducts made(driver, range);
  for (const Layer &layer : layers)
    if (llvm::Error error = made.add(layer))
      return error;
  if (llvm::Error error = made.allocate(stream))
    return error;
  return made;
}

llvm::Error LayerProducts::add(const Layer &layer) {
  auto last = layer.atLast({range});
  if (!last)
    return last.takeError();
  const auto &[family, problem] = last->named;
  const std::optional<MatrixProduct> product = family->matrixProduct(problem);
  const bool isPlain =
      product && !product->isEmpty() && product->batch == 1 &&
      product->alpha == 1 && product->beta == 0 &&
      product->epilogue.size() == 0 && !isTransposedA(product->layout) &&
      (product->type == DType::FP16 || product->type == DType::BF16 ||
       product->type == DType::FP32);
  if (!isPlain)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: background takes plain products of bf16, fp16 or "
                     "fp32 in the layouts NN and NT",
                     layer.name);
  if (!products.empty() && products.front().type != product->type)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: background takes layers of one type", layer.name);
  Product &added = products.emplace_back();
  added.layer = layer;
  added.n = product->n;
  added.k = product->k;
  added.layout = product->layout;
  added.type = product->type;
  return llvm::Error::success();
}

llvm::Error LayerProducts::allocate(CudaStream stream) {
  const DType type = products.front().type;
  int64_t most[3] = {};
  for (const Product &product : products) {
    const int64_t elements[] = {range.last * product.k, product.n * product.k,
                                range.last * product.n};
    for (size_t i = 0; i < std::size(most); ++i)
      most[i] = std::max(most[i], elements[i]);
  }
  DeviceMemory *const memories[] = {&a, &b, &d};
  for (size_t i = 0; i < std::size(most); ++i) {
    const auto elements = static_cast<uint64_t>(most[i]);
    auto memory = DeviceMemory::allocate(*driver, elements * sizeOf(type));
    if (!memory)
      return memory.takeError();
    *memories[i] = std::move(*memory);
    if (memories[i] == &d)
      continue;
    const std::vector<uint8_t> bytes = integers(elements, type);
    if (llvm::Error error = copyToDevice(*driver, memories[i]->address(),
                                         bytes.data(), bytes.size()))
      return error;
  }
  return synchronize(*driver, stream);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

std::string LayerProducts::name(const ProductCall &call) const {
  return fmt::format("{}/m{}", products[call.layer].layer.name, call.rows);
}

ProductCall LayerProducts::draw(std::mt19937_64 &random) const {
  return draw(random() % products.size(), random);
}

ProductCall LayerProducts::draw(size_t layer, std::mt19937_64 &random) const {
  const double low = std::log2(static_cast<double>(range.first)),
               high = std::log2(static_cast<double>(range.last) + 1);
  const double log = std::uniform_real_distribution<double>(low, high)(random);
  return {layer, std::clamp(static_cast<int64_t>(std::exp2(log)), range.first,
                            range.last)};
}

kiln_status PreparedCall::launch(kiln_engine *engine,
                                 const Stream &stream) const {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = text.c_str();
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands.data();
  arguments.operand_count = static_cast<uint32_t>(operands.size());
  return kiln_run(engine, &problem, &arguments, nullptr, stream.handle());
}

llvm::Expected<PreparedCall> LayerProducts::prepare(const ProductCall &call,
                                                    DeviceAddress to) const {
  auto made = products[call.layer].layer.at({range}, {call.rows});
  if (!made)
    return made.takeError();
  // A plain product reads A and B, in this order.
  const OperandTable table = made->named.family->operands(made->named.problem);
  const DeviceAddress inputs[] = {a.address(), b.address()};
  size_t read = 0;
  std::vector<void *> operands;
  for (auto [i, spec] : llvm::enumerate(table.operands)) {
    if (!spec.present)
      continue;
    const DeviceAddress result = to ? to : d.address();
    const size_t slot = spec.slot < 0 ? i : static_cast<size_t>(spec.slot);
    operands.resize(std::max(operands.size(), slot + 1));
    operands[slot] = reinterpret_cast<void *>(
        spec.role == OperandRole::Out ? result : inputs[read++]);
  }
  return PreparedCall(made->text(), std::move(operands));
}

uint64_t LayerProducts::bytesOf(const ProductCall &call) const {
  return static_cast<uint64_t>(call.rows) * products[call.layer].rowBytes();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

llvm::Error LayerProducts::poison(const ProductCall &call, CudaStream stream) {
  // No sum of such integers in any type.
  lastPoison = lastPoison == 0xff ? 0x7f : 0xff;
  return fillAsync(*driver, d.address(), lastPoison, bytesOf(call), stream);
}

/// Whether a row of what is expected is the exact sums, rounded to the type.
llvm::Expected<bool> LayerProducts::isExact(const Product &product) const {
  constexpr int64_t kColumns = 64;
  constexpr double kRounding = 1.0 / 256; // of bf16, and more
  const int64_t row = range.last - 1;
  std::vector<uint8_t> bytes(product.rowBytes());
  if (llvm::Error error =
          copyToHost(*driver, bytes.data(),
                     product.expected.address() +
                         static_cast<uint64_t>(row) * product.rowBytes(),
                     bytes.size()))
    return error;
  const int64_t step = std::max<int64_t>(product.n / kColumns, 1);
  for (int64_t column = 0; column < product.n; column += step) {
    int64_t sum = 0;
    for (int64_t i = 0; i < product.k; ++i) {
      const int64_t inB = isTransposedB(product.layout)
                              ? column * product.k + i
                              : i * product.n + column;
      sum += int64_t(integerAt(static_cast<uint64_t>(row * product.k + i))) *
             integerAt(static_cast<uint64_t>(inB));
    }
    const double exact = static_cast<double>(sum);
    const double got =
        elementAt(bytes, static_cast<size_t>(column), product.type);
    if (!(std::abs(got - exact) <= std::abs(exact) * kRounding))
      return false;
  }
  return true;
}

llvm::Error LayerProducts::prove(size_t layer, kiln_engine *engine,
                                 const Stream &stream) {
  Product &product = products[layer];
  const ProductCall all{layer, range.last};
  auto memory = DeviceMemory::allocate(*driver, bytesOf(all));
  if (!memory)
    return memory.takeError();
  product.expected = std::move(*memory);
  auto call = prepare(all, product.expected.address());
  if (!call)
    return call.takeError();
  if (llvm::Error error = statusError(call->launch(engine, stream)))
    return error;
  if (llvm::Error error = stream.synchronize())
    return error;
  auto exact = isExact(product);
  if (!exact)
    return exact.takeError();
  product.isProven = *exact;
  return llvm::Error::success();
}

llvm::Expected<bool> LayerProducts::isRight(const ProductCall &call,
                                            kiln_engine *engine,
                                            const Stream &stream,
                                            std::mt19937_64 &random) {
  Product &product = products[call.layer];
  if (product.expected.empty())
    if (llvm::Error error = prove(call.layer, engine, stream))
      return error;
  const auto rows = static_cast<uint64_t>(call.rows);
  const uint64_t size = product.rowBytes();
  std::vector<uint8_t> ours(size), theirs(size);
  // No synchronous copies: those are work of the default stream.
  auto read = [&](std::vector<uint8_t> &to, DeviceAddress from) {
    return copyToHostAsync(*driver, to.data(), from, size, stream.handle());
  };
  for (uint64_t row :
       {uint64_t(0), rows - 1, random() % rows, random() % rows}) {
    if (llvm::Error error = read(ours, d.address() + row * size))
      return error;
    if (llvm::Error error =
            read(theirs, product.expected.address() + row * size))
      return error;
    if (llvm::Error error = stream.synchronize())
      return error;
    if (ours != theirs)
      return false;
  }
  return product.isProven;
}

} // namespace kiln::cli
