#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

internal import Synchronization

/// The memory allocator of the process.
public enum Allocator {
  /// The bytes from which on an allocation has pages of its own, which return to the system when it is freed.
  private static let ownPagesMin: Int32 = 512 * 1024
  /// The free bytes at the end of a heap from which on they return to the system.
  private static let freeBytesMax: Int32 = 1024 * 1024
  /// The default of `ownPagesMin`.
  private static let defaultOwnPagesMin = 128 * 1024
  private static let isBound = Atomic(false)
  /// The advice to make pages for writing, as `mman.h` has it.
  private static let populateForWriting: Int32 = 23
  /// The names of these parameters for `mallopt`, as `malloc.h` has them.
  private static let (trimThreshold, mmapThreshold) = (Int32(-1), Int32(-3))

  /// Bounds the free memory that the allocator keeps, from now on.
  ///
  /// By default, glibc raises both thresholds to up to 64 MiB as soon as a large buffer is freed, and then keeps the
  /// memory of all large buffers. Has no effect on a system whose library lacks these thresholds.
  public static func boundFreeMemory() {
    typealias SetParameter = @convention(c) (Int32, Int32) -> Int32
    guard let symbol = dlsym(nil, "mallopt") else { return }
    let setParameter = unsafeBitCast(symbol, to: SetParameter.self)
    isBound.store(true, ordering: .relaxed)
    _ = setParameter(mmapThreshold, ownPagesMin)
    _ = setParameter(trimThreshold, freeBytesMax)
  }

  /// The free blocks of each size that a thread keeps for itself. With 256, a thread keeps at most 8.5 MB.
  private static let cachedBlocksMax = 256
  /// The variable from which glibc reads its parameters.
  private static let parametersVariable = "GLIBC_TUNABLES"

  /// Starts the program from its beginning, with the same process id and arguments, and with more free blocks in the
  /// cache of each thread.
  ///
  /// By default a thread keeps 7 blocks of each size. A batch of commits makes and frees thousands of pages, so most of
  /// them would be taken from and returned to a heap, and looking at its free blocks misses the processor's cache. glibc
  /// reads this parameter only from the environment, before a program begins.
  ///
  /// Returns without effect if the variable has a value already, if the program cannot be started, and on a system with
  /// another library. Call it before anything is opened and before other threads matter.
  public static func restartWithLargerCaches() {
    #if canImport(Glibc)
      guard getenv(parametersVariable) == nil else { return }
      // The link itself would be the name of the process.
      guard let program = realpath("/proc/self/exe", nil) else { return }
      defer { free(program) }
      let parameters = "glibc.malloc.tcache_count=\(cachedBlocksMax)"
      guard setenv(parametersVariable, parameters, 0) == 0 else { return }
      execv(program, CommandLine.unsafeArgv)
    #endif
  }

  /// Lets the heap of the calling thread grow by some bytes at once, for small allocations that follow.
  ///
  /// The heap of a thread other than the first grows by one page after the other, with a system call for each, and
  /// another trap into the system when the page is first used. Does nothing if the bytes are free already, and on a
  /// system with another library.
  ///
  /// - Parameter bytes: how many; fewer if an allocation of so many would have pages of its own.
  public static func growHeap(by bytes: Int) {
    #if canImport(Glibc)
      let page = UInt(max(1, sysconf(Int32(_SC_PAGESIZE))))
      let bound = isBound.load(ordering: .relaxed) ? Int(ownPagesMin) : defaultOwnPagesMin
      let count = min(max(bytes, 0), bound - 2 * Int(page))
      guard count >= page, let memory = malloc(count) else { return }
      // It stays at the end of the heap, because it is less than the free bytes that are kept there.
      defer { free(memory) }
      let (start, end) = (UInt(bitPattern: memory), UInt(bitPattern: memory + count) / page * page)
      let first = (start + page - 1) / page * page
      guard first < end else { return }
      // Where the system lacks this, each page is made when it is first used.
      _ = madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), populateForWriting)
    #endif
  }

  /// Returns free memory to the system, also pages between others that are in use. Takes some milliseconds for each 100
  /// MiB. Has no effect on a system whose library does not offer it.
  public static func returnFreeMemory() {
    typealias Trim = @convention(c) (Int) -> Int32
    guard let symbol = dlsym(nil, "malloc_trim") else { return }
    _ = unsafeBitCast(symbol, to: Trim.self)(0)
  }
}
