#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The free space of disks.
public enum DiskSpace {
  /// Returns the bytes that the process may still write to the disk of a file or folder; nil if the system does not report
  /// them.
  public static func freeBytes(of path: String) -> Int64? {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return nil }
    let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(
      by: UInt64(status.f_frsize))
    return overflow ? .max : Int64(clamping: bytes)
  }
}
