#include "compare/BenchOutput.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::cli;

TEST_CASE("elements of one byte are read") {
  const uint8_t bytes[] = {0x38, 0xb8, 0x7e, 0x01, 0x7f};
  CHECK(elementAt(bytes, 0, DType::E4M3) == 1);
  CHECK(elementAt(bytes, 1, DType::E4M3) == -1);
  CHECK(elementAt(bytes, 2, DType::E4M3) == 448);
  CHECK(elementAt(bytes, 3, DType::E4M3) == 0x1p-9f);
  CHECK(std::isnan(elementAt(bytes, 4, DType::E4M3)));
  const uint8_t wide[] = {0x3c, 0xbc, 0x7b, 0x01, 0x7c};
  CHECK(elementAt(wide, 0, DType::E5M2) == 1);
  CHECK(elementAt(wide, 1, DType::E5M2) == -1);
  CHECK(elementAt(wide, 2, DType::E5M2) == 57344);
  CHECK(elementAt(wide, 3, DType::E5M2) == 0x1p-16f);
  CHECK(std::isinf(elementAt(wide, 4, DType::E5M2)));
  CHECK(elementAt(bytes, 1, DType::INT8) == -72);
}

TEST_CASE("a scale of another row is a difference, rounding is not") {
  MatrixProduct product;
  product.type = product.typeB = DType::E4M3;
  product.k = 16384;
  product.scalesA.kind = product.scalesB.kind = ScaleKind::Row;
  const Tolerance tolerance{0x1p-6, 0x1p-8, 1e-30};
  std::mt19937 random(7);
  std::normal_distribution<float> sums(0, 128);
  OutputRows a(8, std::vector<float>(256)), rounded = a, wrong = a;
  for (size_t row = 0; row < a.size(); ++row)
    for (size_t col = 0; col < a[row].size(); ++col) {
      // Far from 1, and neighbours differ.
      const float scale = std::ldexp(1.0f, int(row * 5 % 8) - 12);
      a[row][col] = scale * sums(random);
      rounded[row][col] = a[row][col] * (1 + 0x1p-8f) + scale * 2;
      wrong[row][col] = col == 100 ? a[row][col] * 2 : a[row][col];
    }
  CHECK(agreeOn(product, tolerance, a, a));
  CHECK(agreeOn(product, tolerance, a, rounded));
  CHECK_FALSE(agreeOn(product, tolerance, a, wrong));
  wrong = a;
  wrong[3][5] = NAN;
  CHECK_FALSE(agreeOn(product, tolerance, a, wrong));
}
