# The public headers: they are installed, and each must compile alone.
set(KILN_PUBLIC_HEADERS
  kiln/attention.h
  kiln/attention.hpp
  kiln/builders.hpp
  kiln/explain.h
  kiln/kiln.h
  kiln/kiln.hpp
  kiln/prepack.h
  kiln/problems.hpp
  kiln/rows.h
  kiln/types.h)
