#include "llama/Mxfp4.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace llama;

TEST_CASE("numbers of 4 bits round to the nearest, and ties to even codes") {
  for (uint8_t code = 0; code < 16; ++code)
    CHECK(roundToE2m1(e2m1ToFloat(code)) == code);
  CHECK(e2m1ToFloat(7) == 6);
  CHECK(e2m1ToFloat(15) == -6);
  for (const auto &[value, rounded] :
       {std::pair(0.25F, 0.0F), std::pair(0.26F, 0.5F), std::pair(0.75F, 1.0F),
        std::pair(1.25F, 1.0F), std::pair(2.5F, 2.0F), std::pair(3.5F, 4.0F),
        std::pair(5.0F, 4.0F), std::pair(5.01F, 6.0F), std::pair(1e9F, 6.0F),
        std::pair(-2.6F, -3.0F)})
    CHECK(e2m1ToFloat(roundToE2m1(value)) == rounded);
}

TEST_CASE("32 numbers share the scale of the greatest of them") {
  CHECK(e8m0ToFloat(127) == 1);
  CHECK(e8m0ToFloat(0) == std::ldexp(1.0F, -127));
  CHECK(std::isnan(e8m0ToFloat(255)));
  float numbers[kMxfp4Group] = {}, back[kMxfp4Group];
  uint8_t codes[kMxfp4Group / 2], scale = 0;
  quantizeMxfp4(numbers, codes, &scale);
  CHECK(scale == 127);
  CHECK(codes[0] == 0);
  numbers[0] = 0.5F;
  numbers[1] = -0.75F; // 6 / 8
  numbers[31] = 0.07F;
  quantizeMxfp4(numbers, codes, &scale);
  CHECK(e8m0ToFloat(scale) == 0.125F);
  CHECK(codes[0] == (0x6 | 0xf << 4));
  dequantizeMxfp4(codes, scale, back);
  CHECK(back[0] == 0.5F);
  CHECK(back[1] == -0.75F);
  CHECK(back[31] == 0.0625F);
  // The smallest and the largest scales that there are.
  numbers[1] = 3e38F;
  quantizeMxfp4(numbers, codes, &scale);
  CHECK(scale == 127 + 125);
  numbers[0] = 1e-44F;
  numbers[1] = numbers[31] = 0;
  quantizeMxfp4(numbers, codes, &scale);
  CHECK(scale == 0);
}
