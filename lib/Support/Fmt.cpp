//===- Fmt.cpp - fmt, compiled once into Kiln -----------------------------===//
//
// Debian and Ubuntu package fmt without a static library, and a shared one
// must not become a dependency of libkiln.so. This is fmt's own source list:
// its inline implementation and the instantiations its headers declare extern.
//
//===----------------------------------------------------------------------===//
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl<char>(locale_ref)
    -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char *, const char *);
template FMT_API void vformat_to(buffer<char> &, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                                 locale_ref);
template FMT_API auto dragonbox::to_decimal(float x) noexcept
    -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept
    -> dragonbox::decimal_fp<double>;
} // namespace detail
FMT_END_NAMESPACE
