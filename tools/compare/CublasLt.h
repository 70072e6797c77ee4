//===- CublasLt.h - cuBLASLt as a peer to measure against -----------------===//
//
// Opened at run time, its few types declared here: no header of cuBLAS is
// needed to build. cuBLASLt thinks in column-major matrices, where a row-major
// one is its transpose: D^T[n, m] = op(B)^T[n, k] op(A)^T[k, m], so A and B
// change places and nothing is copied.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Handles.h"
#include "Driver/LaunchSpec.h"
#include "Kernel/MatrixProduct.h"
#include "Kernel/Operand.h"
#include "Support/DynamicLibrary.h"
#include "Support/Environment.h"
#include "Support/Error.h"
#include "compare/CublasLtBytes.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// The library and its handle in the context that was current at load().
class CublasLt {
public:
  /// Opens KILN_CUBLASLT alone if it is set, else the libcublasLt.so.13 or .12
  /// of the loader, the toolkits of \p environment, the usual folder and \p
  /// extraFolders. Error: DriverMissing, naming the places that were tried.
  static llvm::Expected<std::shared_ptr<const CublasLt>>
  load(const Environment &environment,
       llvm::ArrayRef<std::string> extraFolders);
  ~CublasLt();
  CublasLt(const CublasLt &) = delete;
  CublasLt &operator=(const CublasLt &) = delete;

  /// 130002: 13.0.2.
  size_t version() const;
  /// "13.0.2".
  std::string versionText() const;
  const std::string &path() const { return library.path(); }

private:
  friend class CublasLtMatmul;
  struct Api;
  CublasLt();
  llvm::Error check(int status, const char *what) const;

  DynamicLibrary library;
  std::unique_ptr<Api> api;
  void *handle = nullptr;
};

/// cublasLtMatmulAlgo_t with the workspace that it takes.
struct CublasLtAlgorithm {
  uint64_t opaque[8] = {};
  uint64_t workspaceBytes = 0;
};

/// One matrix product in cuBLASLt's terms. For one thread.
class CublasLtMatmul {
public:
  /// \p operands is the table that \p product has indices into. Scales have to
  /// begin at multiples of 16 bytes. Error Unsupported: a pointwise chain that
  /// is not one of the fused epilogues, types, scales or their places that
  /// cuBLASLt does not take.
  static llvm::Expected<std::unique_ptr<CublasLtMatmul>>
  create(std::shared_ptr<const CublasLt> library, const MatrixProduct &product,
         const OperandTable &operands, uint64_t workspaceBytes);
  ~CublasLtMatmul();
  CublasLtMatmul(const CublasLtMatmul &) = delete;
  CublasLtMatmul &operator=(const CublasLtMatmul &) = delete;

  /// Its heuristic's choices, its own first; at most \p count. Error
  /// Unsupported: it has none.
  llvm::Expected<std::vector<CublasLtAlgorithm>> algorithms(int count) const;

  /// Enqueues one run on the operands of \p arguments.
  llvm::Error launch(const CublasLtAlgorithm &algorithm,
                     const Arguments &arguments, DeviceAddress workspace,
                     CudaStream stream) const;

private:
  CublasLtMatmul(std::shared_ptr<const CublasLt> library,
                 const MatrixProduct &product)
      : library(std::move(library)), product(product), addend(product.c) {}
  llvm::Error describe(const OperandTable &operands, uint64_t workspaceBytes);
  llvm::Error describeProduct(uint32_t epilogue, int biasType);
  llvm::Error describeBytes();
  llvm::Error describeLayouts(const OperandTable &operands);
  llvm::Error describeLimits(const OperandTable &operands,
                             uint64_t workspaceBytes);
  llvm::Error setDescription(int attribute, const void *value,
                             size_t bytes) const;
  llvm::Error setPointer(int attribute, DeviceAddress address) const;
  llvm::Error setScales(DeviceAddress a, DeviceAddress b) const;

  std::shared_ptr<const CublasLt> library;
  const MatrixProduct product;
  void *description = nullptr, *preference = nullptr;
  /// In cuBLASLt's order: its A is Kiln's B.
  void *layouts[4] = {};
  int addend; ///< the operand that plays C
  bool hasBias = false;
  CublasLtScalePair scales;
  float alpha = 1, beta = 0;
};

} // namespace kiln::cli
