#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The reading of a file that is expected to be small. A damaged file may be longer than the memory, or than any disk.
public enum SmallFile {
  /// More bytes than a file of rules or secrets has.
  public static let bytesMax = 8 * 1024 * 1024

  /// Returns the first bytes of a file, or of the file to which a link leads.
  ///
  /// - Parameter bytesMax: the most bytes to return. If the result has as many, the file may be longer.
  /// - Throws: `FileError`, also if the file does not exist.
  public static func read(
    _ path: String, bytesMax: Int = SmallFile.bytesMax
  ) throws(FileError) -> [UInt8] {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    let file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard file >= 0 else { throw FileError("read", path) }
    defer { close(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: min(65_536, bytesMax))
    while bytes.count < bytesMax {
      #if canImport(Glibc)
        let count = Glibc.read(file, &buffer, buffer.count)
      #else
        let count = Musl.read(file, &buffer, buffer.count)
      #endif
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw FileError("read", path) }
      if count == 0 { break }
      bytes += buffer.prefix(min(count, bytesMax - bytes.count))
    }
    return bytes
  }
}
