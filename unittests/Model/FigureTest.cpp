// Numbers that keep their formula.
#include "Model/Figure.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kiln;

namespace {

/// A small model, as models are written.
template <Number N> N model(const DeviceModel &device, double clocks) {
  const N clock =
      named(fitted<N>(0.5, "held share") *
                deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000),
            "clock", "GHz");
  const N math = named(given<N>(clocks, "busy", "clk") / clock, "math", "ns");
  const N load = given<N>(300, "load", "ns");
  N body = named(largest({math, load}), "body", "ns");
  body += excess(load, math);
  return rootNorm<8>({body, load}) + ceiling(given<N>(7, "tiles") / N(2)) -
         least({load, math});
}

} // namespace

TEST_CASE("a model over figures has the values of the model over doubles") {
  const DeviceModel device = testDevice();
  for (double clocks : {10., 500., 100000.}) {
    const Figure figure = model<Figure>(device, clocks);
    CHECK(figure.value() ==
          doctest::Approx(model<double>(device, clocks)).epsilon(1e-12));
  }
}

TEST_CASE("a figure keeps rule, parts, names and sources") {
  const DeviceModel device = testDevice();
  const Figure rate = figureOf(device, &DeviceModel::dramGBs);
  CHECK(rate.formula().name == "dramGBs");
  CHECK(rate.formula().unit == "GB/s");
  CHECK(rate.formula().source == FigureSource::Device);
  const Figure bytes = given<Figure>(4290, "bytes", "B");
  const Figure time = named(bytes / rate, "time", "ns");
  CHECK(time.formula().rule == FigureRule::Quotient);
  CHECK(time.formula().isResult);
  CHECK(time.formula().parts[0].formula().source == FigureSource::Work);
  // A result that is named again stays the only part of the new one.
  const Figure again = named(time, "again", "ns");
  REQUIRE(again.formula().parts.size() == 1);
  CHECK(again.formula().parts[0].formula().name == "time");
  CHECK(again.value() == time.value());
}

TEST_CASE("sums and products are flat, and literals that change nothing go") {
  const Figure a = given<Figure>(2, "a"), b = given<Figure>(3, "b"),
               c = given<Figure>(4, "c");
  CHECK((a + b + c).formula().parts.size() == 3);
  CHECK((a * b * c).formula().parts.size() == 3);
  CHECK((a + (b + c)).formula().parts.size() == 3);
  CHECK((named(a + b, "ab", "") + c).formula().parts.size() == 2);
  CHECK(&(a * Figure(1)).formula() == &a.formula());
  CHECK(&(Figure(0) + a).formula() == &a.formula());
  // An absent time is no part of a maximum; a bound of 0 is.
  CHECK(largest({a, b, Figure(0)}).formula().parts.size() == 2);
  CHECK(largest({a - b, Figure(0)}).value() == 0);
  CHECK(excess(a, b).value() == 0);
  CHECK(norm(2, {b, c, Figure(0)}).value() == doctest::Approx(5));
}

TEST_CASE("figures are the same if they have the same formula") {
  const DeviceModel device = testDevice();
  CHECK(isSame(model<Figure>(device, 10), model<Figure>(device, 10)));
  CHECK_FALSE(isSame(model<Figure>(device, 10), model<Figure>(device, 11)));
  DeviceModel faster = device;
  faster.smClockMHz *= 2;
  CHECK_FALSE(isSame(model<Figure>(device, 10), model<Figure>(faster, 10)));
}

TEST_CASE("every rule is evaluated as it was") {
  const Figure a = given<Figure>(12, "a"), b = given<Figure>(5, "b");
  for (const Figure &figure :
       {a + b, a - b, a * b, a / b, largest({a, b}), least({a, b}),
        norm(2, {a, b}), ceiling(a / b)}) {
    std::vector<double> parts;
    for (const Figure &part : figure.formula().parts)
      parts.push_back(part.value());
    CHECK(evaluate(figure.formula(), parts) == figure.value());
  }
  CHECK(norm(2, {a, b}).value() == doctest::Approx(13));
  CHECK(ceiling(a / b).value() == 3);
}
