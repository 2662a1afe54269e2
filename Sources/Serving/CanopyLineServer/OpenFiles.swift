internal import Foundation

/// The file descriptors that the system lets this process open, and their division between the
/// connections and everything else.
public struct OpenFiles: Sendable {
  /// Descriptors that are kept for the store, its temporary files, the listeners, the log and for
  /// connections that are being refused.
  static let reserved = 64
  /// Descriptors of one event loop: its selector, its timer and the means to wake it, and one spare.
  static let perThread = 4
  /// With fewer connections than this it is of no use to begin.
  static let connectionsMin = 16

  /// The descriptors that the process may have open at one time.
  public let limit: Int

  /// Creates a division of so many descriptors.
  public init(limit: Int) {
    self.limit = limit
  }

  /// Raises the limit of this process as far as the system allows without privileges, and returns
  /// the limit that is then in force.
  public static func raised() -> OpenFiles {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limits = rlimit()
    // Without an answer of the system there is no limit to go by.
    guard getrlimit(resource, &limits) == 0 else { return OpenFiles(limit: .max) }
    let soft = limits.rlim_cur
    limits.rlim_cur = limits.rlim_max
    let isRaised = setrlimit(resource, &limits) == 0
    return OpenFiles(limit: Int(clamping: isRaised ? limits.rlim_max : soft))
  }

  /// Returns the number of connections that the limit leaves room for.
  ///
  /// - Parameter threads: event loops.
  /// - Throws: ``OpenFilesError`` if there is no room for a useful number.
  public func connectionsMax(threads: Int) throws(OpenFilesError) -> Int {
    let others = OpenFiles.others(threads: threads)
    guard limit - others >= OpenFiles.connectionsMin else {
      throw OpenFilesError(limit: limit, needed: others + OpenFiles.connectionsMin)
    }
    return limit - others
  }

  /// Checks that there is room for a client, which has one connection and the event loops of the
  /// library: one per core.
  ///
  /// - Throws: ``OpenFilesError`` if there is not.
  public func checkClient() throws(OpenFilesError) {
    let needed =
      OpenFiles.connectionsMin + OpenFiles.perThread * ProcessInfo.processInfo.processorCount
    guard limit >= needed else { throw OpenFilesError(limit: limit, needed: needed) }
  }

  private static func others(threads: Int) -> Int {
    reserved + perThread * max(1, min(threads, Int(Int32.max)))
  }
}

/// The system lets the process open fewer files than it needs.
public struct OpenFilesError: Error, Equatable, Sendable {
  /// One sentence that says what to do.
  public let sentence: String

  init(limit: Int, needed: Int) {
    sentence =
      "the system lets this process open \(limit) files, and it needs at least \(needed); raise the "
      + "limit, for instance with ulimit -n 1024"
  }
}
