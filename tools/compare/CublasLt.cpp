//===- CublasLt.cpp -------------------------------------------------------===//
//
// Values of enumerations equal those in cublasLt.h and cublas_api.h of CUDA 12
// and 13, which are part of the library's binary interface.
//
//===----------------------------------------------------------------------===//
#include "compare/CublasLt.h"

#include <llvm/Support/FileSystem.h>

namespace kiln::cli {

namespace {

constexpr int kSuccess = 0;

// cudaDataType_t.
constexpr int kReal32 = 0, kReal16 = 2, kInteger8 = 3, kInteger32 = 10,
              kRealBf16 = 14, kRealE4m3 = 28, kRealE5m2 = 29;
// cublasComputeType_t.
constexpr int kCompute32 = 68, kComputeInteger32 = 72, kComputeTf32 = 77;
// cublasOperation_t.
constexpr int32_t kNotTransposed = 0, kTransposed = 1;
// cublasLtMatmulDescAttributes_t.
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7,
              kDescBiasPointer = 8, kDescScalePointerA = 17,
              kDescScalePointerB = 18, kDescFastAccumulation = 25,
              kDescBiasType = 26, kDescScaleModeA = 31, kDescScaleModeB = 32;
// cublasLtMatrixLayoutAttribute_t.
constexpr int kLayoutBatchCount = 5, kLayoutBatchOffset = 6;
// cublasLtMatmulPreferenceAttributes_t.
constexpr int kPreferWorkspace = 1, kPreferAlignmentA = 5;
// cublasLtEpilogue_t.
constexpr uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4,
                   kEpilogueGelu = 32;

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  uint64_t algorithm[8];
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);

} // namespace

struct CublasLt::Api {
  size_t (*cublasLtGetVersion)();
  const char *(*cublasLtGetStatusName)(int);
  int (*cublasLtCreate)(void **);
  int (*cublasLtDestroy)(void *);
  int (*cublasLtMatmulDescCreate)(void **, int, int);
  int (*cublasLtMatmulDescDestroy)(void *);
  int (*cublasLtMatmulDescSetAttribute)(void *, int, const void *, size_t);
  int (*cublasLtMatrixLayoutCreate)(void **, int, uint64_t, uint64_t, int64_t);
  int (*cublasLtMatrixLayoutDestroy)(void *);
  int (*cublasLtMatrixLayoutSetAttribute)(void *, int, const void *, size_t);
  int (*cublasLtMatmulPreferenceCreate)(void **);
  int (*cublasLtMatmulPreferenceDestroy)(void *);
  int (*cublasLtMatmulPreferenceSetAttribute)(void *, int, const void *,
                                              size_t);
  int (*cublasLtMatmulAlgoGetHeuristic)(void *, void *, void *, void *, void *,
                                        void *, void *, int, HeuristicResult *,
                                        int *);
  int (*cublasLtMatmul)(void *, void *, const void *alpha, const void *, void *,
                        const void *, void *, const void *beta, const void *,
                        void *, void *, void *, const uint64_t *,
                        void *workspace, size_t, CudaStream stream);
};

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

CublasLt::CublasLt() : api(std::make_unique<Api>()) {}

CublasLt::~CublasLt() {
  if (handle)
    api->cublasLtDestroy(handle);
}

llvm::Error CublasLt::check(int status, const char *what) const {
  if (status == kSuccess)
    return llvm::Error::success();
  return makeError(ErrorCode::Unsupported, "{}: {} ({})", what,
                   api->cublasLtGetStatusName(status), status);
}

static std::vector<std::string>
candidatesOf(const Environment &environment,
             llvm::ArrayRef<std::string> extraFolders) {
  if (environment.kilnCublasLt)
    return {*environment.kilnCublasLt};
  static constexpr llvm::StringLiteral kNames[] = {"libcublasLt.so.13",
                                                   "libcublasLt.so.12"};
  std::vector<std::string> candidates(std::begin(kNames), std::end(kNames));
  std::vector<std::string> folders;
  for (const auto &toolkit : {environment.cudaHome, environment.cudaPath,
                              std::optional<std::string>("/usr/local/cuda")})
    if (toolkit)
      for (const char *folder : {"/lib64", "/lib", "/targets/x86_64-linux/lib"})
        folders.push_back(*toolkit + folder);
  for (const std::string &folder : extraFolders) {
    folders.push_back(folder);
    folders.push_back(folder + "/lib");
  }
  for (const std::string &folder : folders)
    for (llvm::StringRef name : kNames) {
      std::string path = fmt::format("{}/{}", folder, name);
      if (llvm::sys::fs::exists(path))
        candidates.push_back(std::move(path));
    }
  return candidates;
}

llvm::Expected<std::shared_ptr<const CublasLt>>
CublasLt::load(const Environment &environment,
               llvm::ArrayRef<std::string> extraFolders) {
  auto opened =
      DynamicLibrary::openFirst(candidatesOf(environment, extraFolders),
                                "cuBLASLt", ErrorCode::DriverMissing);
  if (!opened)
    return opened.takeError();
  std::shared_ptr<CublasLt> library(new CublasLt);
  library->library = std::move(*opened);
#define KILN_BIND(symbol)                                                      \
  library->api->symbol =                                                       \
      library->library.find<decltype(Api::symbol)>(#symbol);                   \
  if (!library->api->symbol)                                                   \
  return makeError(ErrorCode::DriverMissing, "{} has no symbol {}",            \
                   library->path(), #symbol)
  KILN_BIND(cublasLtGetVersion);
  KILN_BIND(cublasLtGetStatusName);
  KILN_BIND(cublasLtCreate);
  KILN_BIND(cublasLtDestroy);
  KILN_BIND(cublasLtMatmulDescCreate);
  KILN_BIND(cublasLtMatmulDescDestroy);
  KILN_BIND(cublasLtMatmulDescSetAttribute);
  KILN_BIND(cublasLtMatrixLayoutCreate);
  KILN_BIND(cublasLtMatrixLayoutDestroy);
  KILN_BIND(cublasLtMatrixLayoutSetAttribute);
  KILN_BIND(cublasLtMatmulPreferenceCreate);
  KILN_BIND(cublasLtMatmulPreferenceDestroy);
  KILN_BIND(cublasLtMatmulPreferenceSetAttribute);
  KILN_BIND(cublasLtMatmulAlgoGetHeuristic);
  KILN_BIND(cublasLtMatmul);
#undef KILN_BIND
  if (int status = library->api->cublasLtCreate(&library->handle))
    return makeError(ErrorCode::DriverMissing, "cublasLtCreate: {} ({})",
                     library->api->cublasLtGetStatusName(status), status);
  return std::shared_ptr<const CublasLt>(std::move(library));
}

size_t CublasLt::version() const { return api->cublasLtGetVersion(); }

std::string CublasLt::versionText() const {
  const size_t number = version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100,
                     number % 100);
}

//===----------------------------------------------------------------------===//
// A problem
//===----------------------------------------------------------------------===//

/// cublasComputeType_t of \p product.
static int computeTypeOf(const MatrixProduct &product) {
  if (product.type == DType::INT8)
    return kComputeInteger32;
  return product.compute == ComputeMode::TF32 ? kComputeTf32 : kCompute32;
}

static int dataTypeOf(DType type) {
  switch (type) {
  case DType::BF16:
    return kRealBf16;
  case DType::FP16:
    return kReal16;
  case DType::E4M3:
    return kRealE4m3;
  case DType::E5M2:
    return kRealE5m2;
  case DType::INT8:
    return kInteger8;
  case DType::INT32:
    return kInteger32;
  default:
    return kReal32;
  }
}

namespace {
/// A pointwise chain as a fused epilogue.
struct Epilogue {
  uint32_t code = kEpilogueDefault;
  bool hasBias = false;
  bool addsResidual = false; ///< through C with beta 1
};
} // namespace

static llvm::Expected<Epilogue> epilogueOf(const MatrixProduct &product) {
  const PointwiseChain &chain = product.epilogue;
  Epilogue epilogue;
  uint32_t activation = 0;
  int next = 0;
  if (next < chain.size() && chain.ops[next] == PointwiseOp::Bias) {
    epilogue.hasBias = true;
    ++next;
  }
  if (next < chain.size()) {
    // Its C comes before bias and activation, which is the same for a sum. Its
    // gelu is the tanh form.
    if (chain.ops[next] == PointwiseOp::Residual && product.beta == 0)
      epilogue.addsResidual = true;
    else if (chain.ops[next] == PointwiseOp::Relu)
      activation = kEpilogueRelu;
    else if (chain.ops[next] == PointwiseOp::GeluTanh)
      activation = kEpilogueGelu;
    else
      --next;
    ++next;
  }
  if (next != chain.size())
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt has no such fused epilogue");
  uint32_t code = activation | (epilogue.hasBias ? kEpilogueBias : 0);
  epilogue.code = code ? code : kEpilogueDefault;
  return epilogue;
}

llvm::Error CublasLtMatmul::setDescription(int attribute, const void *value,
                                           size_t bytes) const {
  return library->check(library->api->cublasLtMatmulDescSetAttribute(
                            description, attribute, value, bytes),
                        "cublasLtMatmulDescSetAttribute");
}

llvm::Error CublasLtMatmul::setPointer(int attribute,
                                       DeviceAddress address) const {
  void *pointer = reinterpret_cast<void *>(address);
  return setDescription(attribute, &pointer, sizeof(pointer));
}

/// Where the scales are that it has, in cuBLASLt's order.
llvm::Error CublasLtMatmul::setScales(DeviceAddress a, DeviceAddress b) const {
  if (scales.a.operand >= 0)
    if (llvm::Error error = setPointer(kDescScalePointerA, a))
      return error;
  return scales.b.operand >= 0 ? setPointer(kDescScalePointerB, b)
                               : llvm::Error::success();
}

/// Attributes of fp8 alone: the accumulation of sums and the reading of scales.
llvm::Error CublasLtMatmul::describeBytes() {
  if (!isFp8(product.type))
    return llvm::Error::success();
  const int8_t isFast = product.compute == ComputeMode::FastFp8;
  if (llvm::Error error =
          setDescription(kDescFastAccumulation, &isFast, sizeof(isFast)))
    return error;
  for (auto [attribute, mode] : {std::pair(kDescScaleModeA, scales.a.mode),
                                 std::pair(kDescScaleModeB, scales.b.mode)}) {
    // The default, which versions without the attribute have alone.
    if (mode == CublasLtScaleMode::Scalar)
      continue;
    if (llvm::Error error = setDescription(attribute, &mode, sizeof(mode)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error CublasLtMatmul::describeLayouts(const OperandTable &operands) {
  const int indices[] = {product.b, product.a, beta == 0 ? product.d : addend,
                         product.d};
  const auto &api = *library->api;
  int32_t batch = static_cast<int32_t>(product.batch);
  for (int i = 0; i < 4; ++i) {
    const OperandSpec &matrix = operands.operands[indices[i]];
    // Rows of a column-major matrix are columns of a row-major one.
    if (llvm::Error error = library->check(
            api.cublasLtMatrixLayoutCreate(&layouts[i], dataTypeOf(matrix.type),
                                           static_cast<uint64_t>(matrix.cols),
                                           static_cast<uint64_t>(matrix.rows),
                                           matrix.leadingDimension),
            "cublasLtMatrixLayoutCreate"))
      return error;
    if (product.batch == 1)
      continue;
    int status = api.cublasLtMatrixLayoutSetAttribute(
        layouts[i], kLayoutBatchCount, &batch, sizeof(batch));
    if (status == kSuccess)
      status = api.cublasLtMatrixLayoutSetAttribute(
          layouts[i], kLayoutBatchOffset, &matrix.batchStride,
          sizeof(matrix.batchStride));
    if (llvm::Error error =
            library->check(status, "cublasLtMatrixLayoutSetAttribute"))
      return error;
  }
  return llvm::Error::success();
}

/// The workspace that algorithms may take, and the alignment that every pointer
/// promises.
llvm::Error CublasLtMatmul::describeLimits(const OperandTable &operands,
                                           uint64_t workspaceBytes) {
  int64_t combined = 256;
  for (int index :
       {product.a, product.b, beta == 0 ? product.d : addend, product.d})
    combined |= operands.operands[index].misalignment;
  const auto alignment = static_cast<uint32_t>(combined & -combined);
  const auto &api = *library->api;
  int status = api.cublasLtMatmulPreferenceCreate(&preference);
  if (status == kSuccess)
    status = api.cublasLtMatmulPreferenceSetAttribute(
        preference, kPreferWorkspace, &workspaceBytes, sizeof(workspaceBytes));
  for (int i = 0; i < 4 && status == kSuccess; ++i)
    status = api.cublasLtMatmulPreferenceSetAttribute(
        preference, kPreferAlignmentA + i, &alignment, sizeof(alignment));
  return library->check(status, "cublasLtMatmulPreferenceSetAttribute");
}

llvm::Error CublasLtMatmul::describeProduct(uint32_t epilogue, int biasType) {
  // The type of alpha and beta, too.
  const int scaleType = product.type == DType::INT8 ? kInteger32 : kReal32;
  if (llvm::Error error =
          library->check(library->api->cublasLtMatmulDescCreate(
                             &description, computeTypeOf(product), scaleType),
                         "cublasLtMatmulDescCreate"))
    return error;
  // A row-major matrix that is stored as named is its transpose to cuBLASLt,
  // which is what the swapped product wants.
  int32_t opA = isTransposedB(product.layout) ? kTransposed : kNotTransposed;
  int32_t opB = isTransposedA(product.layout) ? kTransposed : kNotTransposed;
  for (auto [attribute, value, bytes] :
       {std::tuple<int, const void *, size_t>(kDescTransA, &opA, sizeof(opA)),
        {kDescTransB, &opB, sizeof(opB)},
        {kDescEpilogue, &epilogue, sizeof(epilogue)},
        {kDescBiasType, &biasType, sizeof(biasType)}})
    if (llvm::Error error = setDescription(attribute, value, bytes))
      return error;
  return describeBytes();
}

llvm::Error CublasLtMatmul::describe(const OperandTable &operands,
                                     uint64_t workspaceBytes) {
  auto epilogue = epilogueOf(product);
  if (!epilogue)
    return epilogue.takeError();
  if (llvm::Error error = checkCublasLtTypes(product))
    return error;
  auto pair = cublasLtScalesOf(product, library->version());
  if (!pair)
    return pair.takeError();
  scales = *pair;
  hasBias = epilogue->hasBias;
  alpha = static_cast<float>(product.alpha);
  beta = epilogue->addsResidual ? 1.0f : static_cast<float>(product.beta);
  addend = epilogue->addsResidual ? product.residual : product.c;
  if (llvm::Error error = describeProduct(
          epilogue->code, dataTypeOf(operands.operands[product.d].type)))
    return error;
  if (llvm::Error error = describeLayouts(operands))
    return error;
  return describeLimits(operands, workspaceBytes);
}

llvm::Expected<std::unique_ptr<CublasLtMatmul>>
CublasLtMatmul::create(std::shared_ptr<const CublasLt> library,
                       const MatrixProduct &product,
                       const OperandTable &operands, uint64_t workspaceBytes) {
  std::unique_ptr<CublasLtMatmul> matmul(
      new CublasLtMatmul(std::move(library), product));
  if (llvm::Error error = matmul->describe(operands, workspaceBytes))
    return error;
  return matmul;
}

CublasLtMatmul::~CublasLtMatmul() {
  const auto &api = *library->api;
  if (preference)
    api.cublasLtMatmulPreferenceDestroy(preference);
  for (void *layout : layouts)
    if (layout)
      api.cublasLtMatrixLayoutDestroy(layout);
  if (description)
    api.cublasLtMatmulDescDestroy(description);
}

llvm::Expected<std::vector<CublasLtAlgorithm>>
CublasLtMatmul::algorithms(int count) const {
  std::vector<HeuristicResult> results(static_cast<size_t>(count));
  // The heuristic looks at the alignment of the pointers of bias and scales.
  constexpr DeviceAddress kAligned = 256;
  if (hasBias)
    if (llvm::Error error = setPointer(kDescBiasPointer, kAligned))
      return error;
  if (llvm::Error error = setScales(kAligned, kAligned))
    return error;
  int found = 0;
  int status = library->api->cublasLtMatmulAlgoGetHeuristic(
      library->handle, description, layouts[0], layouts[1], layouts[2],
      layouts[3], preference, count, results.data(), &found);
  if (llvm::Error error =
          library->check(status, "cublasLtMatmulAlgoGetHeuristic"))
    return error;
  std::vector<CublasLtAlgorithm> algorithms;
  for (const HeuristicResult &result :
       llvm::ArrayRef(results).take_front(static_cast<size_t>(found))) {
    if (result.state != kSuccess)
      continue;
    CublasLtAlgorithm &algorithm = algorithms.emplace_back();
    std::copy(std::begin(result.algorithm), std::end(result.algorithm),
              algorithm.opaque);
    algorithm.workspaceBytes = result.workspaceBytes;
  }
  if (algorithms.empty())
    return makeError(ErrorCode::Unsupported,
                     "cuBLASLt has no algorithm for this problem");
  return algorithms;
}

llvm::Error CublasLtMatmul::launch(const CublasLtAlgorithm &algorithm,
                                   const Arguments &arguments,
                                   DeviceAddress workspace,
                                   CudaStream stream) const {
  auto address = [&](int operand) {
    return operand < 0 ? 0 : arguments.operands[operand].address;
  };
  auto pointer = [&](int operand) {
    return reinterpret_cast<void *>(address(operand));
  };
  if (hasBias)
    if (llvm::Error error = setPointer(kDescBiasPointer, address(product.bias)))
      return error;
  if (llvm::Error error =
          setScales(address(scales.a.operand), address(scales.b.operand)))
    return error;
  void *d = pointer(product.d);
  // With beta 0 its C is D, which is then not read.
  void *c = beta == 0 ? d : pointer(addend);
  // They have the type of the sums.
  const auto wholeAlpha = static_cast<int32_t>(alpha);
  const auto wholeBeta = static_cast<int32_t>(beta);
  const bool isWhole = product.type == DType::INT8;
  const void *factors[] = {&alpha, &beta};
  const void *wholeFactors[] = {&wholeAlpha, &wholeBeta};
  const auto &given = isWhole ? wholeFactors : factors;
  int status = library->api->cublasLtMatmul(
      library->handle, description, given[0], pointer(product.b), layouts[0],
      pointer(product.a), layouts[1], given[1], c, layouts[2], d, layouts[3],
      algorithm.opaque, reinterpret_cast<void *>(workspace),
      algorithm.workspaceBytes, stream);
  return library->check(status, "cublasLtMatmul");
}

} // namespace kiln::cli
