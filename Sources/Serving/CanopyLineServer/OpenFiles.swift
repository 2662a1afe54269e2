internal import Foundation

/// The file descriptors that the system lets this process open, and their division between the
/// connections and everything else.
public struct OpenFiles: Sendable {
  /// The descriptors that are reserved for the store, its temporary files, the listeners, the log and
  /// connections that are being refused.
  static let reserved = 64
  /// The descriptors of one event loop: its selector, its timer, its wake-up event and a spare one.
  static let perThread = 4
  /// The descriptors of an open namespace.
  static let perNamespace = 16
  /// The fewest connections with which a server is useful.
  static let connectionsMin = 16

  /// The descriptors that the process may have open at one time.
  public let limit: Int

  /// Creates a division of this number of descriptors.
  public init(limit: Int) {
    self.limit = limit
  }

  /// Raises the limit of this process as far as the system allows without privileges, and returns
  /// the new limit.
  public static func raised() -> OpenFiles {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limits = rlimit()
    // If the system reports no limit, assume that there is none.
    guard getrlimit(resource, &limits) == 0 else { return OpenFiles(limit: .max) }
    let soft = limits.rlim_cur
    limits.rlim_cur = limits.rlim_max
    let isRaised = setrlimit(resource, &limits) == 0
    return OpenFiles(limit: Int(clamping: isRaised ? limits.rlim_max : soft))
  }

  /// Returns the number of connections for which the limit leaves room.
  ///
  /// - Parameter threads: the number of event loops.
  /// - Throws: ``OpenFilesError`` if there is no room for a useful number.
  public func connectionsMax(threads: Int) throws(OpenFilesError) -> Int {
    let others = OpenFiles.others(threads: threads)
    guard limit - others >= OpenFiles.connectionsMin else {
      throw OpenFilesError(limit: limit, needed: others + OpenFiles.connectionsMin)
    }
    return limit - others
  }

  /// Divides the room between connections and namespaces, which get at most a quarter of it.
  ///
  /// - Parameters:
  ///   - threads: the number of event loops.
  ///   - namespacesMax: the wanted number of open namespaces.
  /// - Throws: ``OpenFilesError`` if there is no room for a useful number of connections.
  public func division(
    threads: Int, namespacesMax: Int
  ) throws(OpenFilesError) -> (connections: Int, namespaces: Int) {
    let room = try connectionsMax(threads: threads)
    let namespaces = min(namespacesMax, room / 4 / OpenFiles.perNamespace)
    return (room - namespaces * OpenFiles.perNamespace, namespaces)
  }

  /// Checks that the limit leaves room for a client, which has one connection and an event loop for each
  /// core.
  ///
  /// - Throws: ``OpenFilesError`` if it does not.
  public func checkClient() throws(OpenFilesError) {
    let needed =
      OpenFiles.connectionsMin + OpenFiles.perThread * ProcessInfo.processInfo.processorCount
    guard limit >= needed else { throw OpenFilesError(limit: limit, needed: needed) }
  }

  private static func others(threads: Int) -> Int {
    reserved + perThread * max(1, min(threads, Int(Int32.max)))
  }
}

/// The error for a process that may open fewer files than it needs.
public struct OpenFilesError: Error, Equatable, Sendable {
  /// A sentence that says what to do.
  public let sentence: String

  init(limit: Int, needed: Int) {
    sentence =
      "the system lets this process open \(limit) files, and it needs at least \(needed); raise the "
      + "limit, for instance with ulimit -n 1024"
  }
}
