#ifndef CANOPY_CMALLOCCOUNT_H
#define CANOPY_CMALLOCCOUNT_H

#include <stdint.h>

/// Returns the number of calls of `malloc` in this thread so far, or -1 if they are not counted: without glibc, and with a
/// sanitizer, which takes the place of `malloc` itself.
///
/// A program that is linked with this target uses its `malloc`, which counts and calls that of glibc.
int64_t MallocCallsOfThread(void);

#endif
