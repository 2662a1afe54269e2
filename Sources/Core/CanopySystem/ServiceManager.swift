#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The service manager that started the process, such as systemd.
///
/// The process reports its state by datagrams to a socket that the manager names in the environment (`sd_notify`). The
/// path of the socket is in the file system or, with `@` in front, in the abstract namespace of Linux.
public struct ServiceManager: Sendable {
  /// The path of the socket, as the environment has it.
  private let path: String
  /// The time within which the manager expects each `WATCHDOG=1`; nil if it expects none.
  public let watchdogTimeout: Duration?

  /// Finds the manager; nil if the environment names none.
  ///
  /// - Parameters:
  ///   - environment: the variables of the process: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
  ///   - pid: the id of the process; nil for the present one. A watchdog for another process is ignored.
  public init?(environment: [String: String], pid: Int32? = nil) {
    guard let path = environment["NOTIFY_SOCKET"], let first = path.utf8.first,
      first == UInt8(ascii: "/") || first == UInt8(ascii: "@"), path.utf8.count > 1
    else { return nil }
    self.path = path
    let isForOther = environment["WATCHDOG_PID"].map { Int32($0) != (pid ?? getpid()) } ?? false
    let microseconds = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
    watchdogTimeout = isForOther || microseconds <= 0 ? nil : .microseconds(microseconds)
  }

  /// Sends a state, such as `READY=1`. Does not wait if the manager is behind with reading.
  ///
  /// - Throws: `FileError`; its code is `EAGAIN` if the manager is behind.
  public func notify(_ state: String) throws(FileError) {
    let descriptor = socket(
      AF_UNIX, ServiceManager.datagrams | ServiceManager.closeOnExec, 0)
    guard descriptor >= 0 else { throw FileError("create", "a socket") }
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    var name = Array(path.utf8)
    // A zero byte stands for the abstract namespace. A name there is as long as the address says; a path ends with a
    // zero byte, which the address has anyway.
    if name.first == UInt8(ascii: "@") { name[0] = 0 }
    guard name.count < MemoryLayout.size(ofValue: address.sun_path) else {
      errno = ENAMETOOLONG
      throw FileError("notify", path)
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    let prefix = MemoryLayout<sockaddr_un>.size - MemoryLayout.size(ofValue: address.sun_path)
    let length = socklen_t(prefix + name.count)
    let text = Array(state.utf8)
    while true {
      let sent = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          sendto(descriptor, text, text.count, ServiceManager.doNotWait, $0, length)
        }
      }
      if sent >= 0 { return }
      guard errno == EINTR else { throw FileError("notify", path) }
    }
  }

  #if canImport(Glibc)
    private static let datagrams = Int32(SOCK_DGRAM.rawValue)
    private static let closeOnExec = Int32(SOCK_CLOEXEC.rawValue)
    private static let doNotWait = Int32(MSG_DONTWAIT | MSG_NOSIGNAL)
  #elseif canImport(Musl)
    private static let datagrams = SOCK_DGRAM
    private static let closeOnExec = SOCK_CLOEXEC
    private static let doNotWait = MSG_DONTWAIT | MSG_NOSIGNAL
  #endif
}

extension ServiceManager {
  /// Whether the standard error of this process is a stream of the journal, as `JOURNAL_STREAM` says.
  ///
  /// - Parameter environment: the variables of the process. A child inherits the variable, but may have another
  ///   standard error; so its device and inode are compared.
  public static func journalHasStandardError(environment: [String: String]) -> Bool {
    guard let stream = environment["JOURNAL_STREAM"] else { return false }
    var status = stat()
    guard fstat(STDERR_FILENO, &status) == 0 else { return false }
    return Array("\(status.st_dev):\(status.st_ino)".utf8) == Array(stream.utf8)
  }
}

/// The proof to the service manager that the process works.
///
/// Twice within each timeout it runs a check, and reports `WATCHDOG=1` when the check ends. A check that does not end
/// keeps the report back, and the manager then ends the process and starts another one. So a check needs no deadline of
/// its own: it must only wait for the parts that can get stuck.
public struct Watchdog: Sendable {
  private let timeout: Duration
  private let report: @Sendable () -> Void

  /// - Parameters:
  ///   - timeout: the time within which the manager expects each report.
  ///   - report: sends a report.
  public init(timeout: Duration, report: @escaping @Sendable () -> Void) {
    self.timeout = timeout
    self.report = report
  }

  /// Checks and reports until the task is cancelled.
  public func run(clock: any Clock<Duration>, check: @Sendable () async -> Void) async {
    while !Task.isCancelled {
      await check()
      report()
      // A cancelled sleep ends the loop.
      try? await clock.sleep(for: timeout / 2)
    }
  }
}
