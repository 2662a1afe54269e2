#ifndef CANOPY_CPREFETCH_SHIM_H
#define CANOPY_CPREFETCH_SHIM_H

#include <stdint.h>

/// Begins to load the objects of some references into the processor's cache, and does not wait for them.
///
/// The references are `stride` bytes apart. Swift uses the bits of a reference that no address has for itself. The value
/// may also be something else than a reference: the instruction ignores an address without memory.
static inline void PrefetchReferences(const void *_Nonnull first, long count, long stride) {
  const char *value = (const char *)first;
  for (long i = 0; i < count; i++, value += stride) {
    uintptr_t address = *(const uintptr_t *)value & 0x00fffffffffffff8;
    __builtin_prefetch((const void *)address, 1);
  }
}

#endif
