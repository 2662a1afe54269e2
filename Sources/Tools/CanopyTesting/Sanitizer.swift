import Foundation

/// The thread sanitizer or the address sanitizer, with which `Scripts/sanitize` builds the tests and the program.
public enum Sanitizer {
  /// Whether this process has one. Its allocator takes more memory, and `malloc_info` does not describe it.
  public static var isPresent: Bool { dlsym(nil, "__sanitizer_get_heap_size") != nil }

  /// Whether this process has the thread sanitizer.
  public static var isForThreads: Bool { dlsym(nil, "__tsan_init") != nil }
}
