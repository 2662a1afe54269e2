#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif
#if DEBUG
  public import Synchronization
#endif

/// The system calls with which Canopy itself changes files. SQLite makes those for the database.
///
/// Each call returns what the system returns: a negative number for an error, which `errno` names. In debug builds a test
/// can make them fail: see `faults`.
public enum FileCalls {
  /// Opens a file or a folder. A new file gets mode 0600.
  public static func openFile(_ path: String, _ flags: Int32) -> Int32 {
    #if DEBUG
      if fault(of: .open(creates: flags & O_CREAT != 0), at: path) != nil { return -1 }
    #endif
    return open(path, flags, mode_t(0o600))
  }

  /// Writes bytes to an open file, perhaps not all of them.
  ///
  /// - Parameters:
  ///   - offset: the position in the file; nil for the position of the descriptor.
  ///   - path: the name of the file.
  public static func writeBytes(
    _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, at offset: Int? = nil, _ path: String
  ) -> Int {
    var bytes = bytes
    #if DEBUG
      switch fault(of: .write(Array(bytes), offset: offset), at: path) {
      case .error?: return -1
      case .short(let count)?: bytes = .init(rebasing: bytes.prefix(count))
      case nil: break
      }
    #endif
    guard let offset else { return write(descriptor, bytes.baseAddress, bytes.count) }
    return pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(offset))
  }

  /// Waits until the disk has the contents of a file, or the names in a folder.
  ///
  /// - Parameters:
  ///   - dataOnly: whether the times of the file need not be stored.
  ///   - path: the name of the file or folder.
  public static func synchronize(
    _ descriptor: Int32, dataOnly: Bool = false, _ path: String
  ) -> Int32 {
    #if DEBUG
      if fault(of: .synchronize, at: path) != nil { return -1 }
    #endif
    return dataOnly ? fdatasync(descriptor) : fsync(descriptor)
  }

  /// Gives a file another name, which it takes from another file.
  public static func renameFile(_ path: String, to new: String) -> Int32 {
    #if DEBUG
      if fault(of: .rename(to: new), at: path) != nil { return -1 }
    #endif
    return rename(path, new)
  }

  /// Removes a file.
  public static func removeFile(_ path: String) -> Int32 {
    #if DEBUG
      if fault(of: .remove, at: path) != nil { return -1 }
    #endif
    return unlink(path)
  }
}

#if DEBUG
  extension FileCalls {
    /// A call that is about to be made.
    public enum Operation: Sendable {
      /// Opens a file or a folder.
      case open(creates: Bool)
      /// Writes bytes at an offset; nil for the position of the descriptor.
      case write([UInt8], offset: Int?)
      /// Waits for the disk.
      case synchronize
      /// Gives another name.
      case rename(to: String)
      /// Removes a file.
      case remove
    }

    /// The way in which a call fails.
    public enum Fault: Sendable {
      /// The call does nothing, and sets `errno`.
      case error(Int32)
      /// A write stores only so many bytes.
      case short(Int)
    }

    /// The faults of calls.
    ///
    /// A type of its own: each access to a closure that is itself the value of a `Mutex` would wrap it once more, and its
    /// end would need as many frames on the stack.
    public struct Faults: Sendable {
      /// Returns the fault of a call on a path; nil to make the call.
      public var ofCall: (@Sendable (Operation, String) -> Fault?)?
    }

    /// The faults that tests have set.
    public static let faults = Mutex(Faults())

    private static func fault(
      of operation: @autoclosure () -> Operation, at path: String
    ) -> Fault? {
      guard let ofCall = faults.withLock({ $0.ofCall }), let fault = ofCall(operation(), path)
      else {
        return nil
      }
      if case .error(let code) = fault { errno = code }
      return fault
    }
  }
#endif
