#pragma once
constexpr int kPlain = 7; // "quotes", \backslashes; ${variables} [brackets]
