#include "CMallocCount.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif

#if defined(__GLIBC__) && !defined(IS_SANITIZED)

// The function of glibc, which has this name for programs that define `malloc`.
extern void *__libc_malloc(size_t size);

static __thread int64_t calls;

void *malloc(size_t size) {
  calls += 1;
  return __libc_malloc(size);
}

int64_t MallocCallsOfThread(void) { return calls; }

#else

int64_t MallocCallsOfThread(void) { return -1; }

#endif
