// Assertions that stay on in production. A failed check is a bug of ours: bytes from outside never reach one, they end
// in a Result. KV_CHECK is for cheap truths on both sides of a boundary, KV_DCHECK for dear ones (debug builds only).
#pragma once

namespace kvern {
/// Prints the failed expression with its place and ends the process.
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;
}  // namespace kvern

#define KV_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::kvern::check_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define KV_DCHECK(expression) static_cast<void>(sizeof(!(expression)))
#else
#define KV_DCHECK(expression) KV_CHECK(expression)
#endif
