internal import Foundation
public import NIOCore
internal import NIOPosix

/// The Unix socket in a data folder, at which the server of the folder listens for commands on the
/// same machine.
///
/// A command that has the administrator's token must know that it is connected to the server of the
/// folder, and not to another program on the server's port. Only a program that may write to the
/// folder can listen at this socket, and only the user of the server and root can connect.
public enum LocalSocket {
  /// The name of the socket in the data folder.
  public static let fileName = "canopy.sock"

  /// Calls `body` with a path of the socket that fits into a socket address.
  ///
  /// The path of a Unix socket has at most 107 bytes. A longer path leads through an open descriptor of
  /// the folder, so it is valid during the call only.
  ///
  /// - Throws: ``LocalSocketError`` if the folder cannot be opened; the errors of `body`.
  public static func withPath<R: Sendable>(
    in folder: String, isolation: isolated (any Actor)? = #isolation,
    _ body: (String) async throws -> R
  ) async throws -> R {
    let path = folder + "/" + fileName
    if path.utf8.count <= pathBytesMax { return try await body(path) }
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw LocalSocketError("open", folder) }
    defer { close(descriptor) }
    return try await body("/proc/self/fd/\(descriptor)/\(fileName)")
  }

  private static let pathBytesMax = 107

  /// The numbers of a socket in its file system. While it is open, no other file has them.
  struct Identity: Equatable, Sendable {
    private let device: dev_t
    private let inode: ino_t

    fileprivate init(_ status: stat) {
      (device, inode) = (status.st_dev, status.st_ino)
    }
  }

  /// Creates the socket with mode 0600. Replaces the socket of an earlier server.
  ///
  /// Precondition: no other server uses the folder.
  ///
  /// - Returns: a bound socket, and its identity. No client can connect until it listens.
  /// - Throws: ``LocalSocketError``.
  static func bind(in folder: String) async throws -> (
    handle: NIOBSDSocket.Handle, identity: Identity
  ) {
    try await withPath(in: folder) { path in
      try remove(path)
      let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      guard descriptor >= 0 else { throw LocalSocketError("create", path) }
      do {
        let address = try SocketAddress(unixDomainSocketPath: path)
        let result = address.withSockAddr { Foundation.bind(descriptor, $0, socklen_t($1)) }
        guard result == 0 else { throw LocalSocketError("create", path) }
        // The socket does not listen yet, so no client can connect while the mode is wider.
        guard chmod(path, 0o600) == 0 else { throw LocalSocketError("restrict", path) }
        var status = stat()
        guard lstat(path, &status) == 0 else { throw LocalSocketError("examine", path) }
        return (descriptor, Identity(status))
      } catch {
        close(descriptor)
        throw error
      }
    }
  }

  /// Removes the socket that `bind` has created. Does nothing if another one, or none, has its name: the folder may have
  /// been replaced by one that another server uses.
  static func remove(_ socket: Identity, in folder: String) async throws {
    try await withPath(in: folder) { try remove($0, only: socket) }
  }

  /// Removes a socket. Throws for a file of another kind, which the server has not created.
  ///
  /// - Parameter only: the socket to remove; nil for any.
  private static func remove(_ path: String, only: Identity? = nil) throws {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      if errno == ENOENT { return }
      throw LocalSocketError("examine", path)
    }
    if let only, only != Identity(status) { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else {
      throw LocalSocketError(sentence: "\(path) is not a socket; move it elsewhere")
    }
    guard unlink(path) == 0 || errno == ENOENT else { throw LocalSocketError("replace", path) }
  }
}

/// The error for a local socket that cannot be used.
public struct LocalSocketError: Error, Sendable {
  /// A sentence that says what to do.
  public let sentence: String

  init(sentence: String) {
    self.sentence = sentence
  }

  /// Creates the error for the system call that has just failed.
  fileprivate init(_ operation: String, _ path: String) {
    let reason = String(cString: strerror(errno))
    sentence = "cannot \(operation) \(path): \(reason); check the folder and its permissions"
  }
}

/// `struct ucred` of Linux, which the C library declares only with its extensions.
private struct PeerCredentials {
  var pid: Int32
  var uid: UInt32
  var gid: UInt32
}

extension LocalSocket {
  /// Whether the other end of a connection is a process of one of these users.
  ///
  /// - Parameter channel: a connected Unix socket.
  public static func isPeer(of channel: any Channel, among users: Set<UInt32>) async throws -> Bool
  {
    guard let socket = channel as? any SocketOptionProvider else { return false }
    let peer: PeerCredentials = try await socket.unsafeGetSocketOption(
      level: .socket, name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
    ).get()
    return users.contains(peer.uid)
  }
}
