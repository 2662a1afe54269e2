import ArgumentParser
import CanopyAccounts
import CanopyLineServer
import CanopyTree
import CanopyWire
import Foundation
import NIOCore
import NIOPosix

/// The folder of a running server. It holds the server's socket for commands and the administrator's token.
struct AdministratorOptions: ParsableArguments {
  @OptionGroup var folder: FolderOption
  @OptionGroup var option: NamespaceOption

  /// Connects to the server of the folder as its administrator while `body` runs.
  ///
  /// The token is sent only through the socket in the folder, where no other user's program can listen. It is never
  /// sent to a port, where any program can listen.
  func use<R: Sendable>(
    _ body: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    try await AdministratorConnection.logIn(to: try folder.folder()) { connection in
      if option.name != .default { _ = try await connection.success("USE \(option.name)") }
      return try await body(&connection)
    }
  }
}

/// A connection to the server of a folder, with one request at a time.
struct AdministratorConnection {
  private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
  private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
  private var received: [UInt8] = []

  /// Connects to the server of a folder as its administrator while `body` runs.
  static func logIn<R: Sendable>(
    to folder: String, _ body: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    try OpenFiles.raised().checkClient()
    guard let token = try AdministratorToken.load(from: folder) else {
      // A command may be creating the folder, or have created it just now.
      throw NoServer(folder: folder, hasToken: false)
    }
    return try await open(folder: folder) { connection in
      _ = try await connection.success("AUTH \(token.text)")
      return try await body(&connection)
    }
  }

  /// Connects, and closes the connection after `body`.
  ///
  /// - Throws: `NoServer` if no server listens; `Failure` if the server belongs to another user than the folder.
  static func open<R: Sendable>(
    folder: String,
    _ body: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    let channel = try await connect(folder: folder)
    guard
      try await LocalSocket.isPeer(
        of: channel.channel, among: [try owner(of: folder), geteuid(), 0])
    else {
      try? await channel.channel.close()
      throw Failure(
        "the program that listens in \(folder) belongs to another user; nothing was sent to it")
    }
    return try await channel.executeThenClose { inbound, outbound in
      var connection = AdministratorConnection(
        inbound: inbound.makeAsyncIterator(), outbound: outbound)
      return try await body(&connection)
    }
  }

  private static func connect(
    folder: String
  ) async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
    do {
      return try await LocalSocket.withPath(in: folder) { path in
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .connect(unixDomainSocketPath: path) { channel in
            channel.eventLoop.makeCompletedFuture {
              try NIOAsyncChannel(wrappingChannelSynchronously: channel)
            }
          }
      }
    } catch {
      throw NoServer(folder: folder)
    }
  }

  /// Returns the id of the user who owns the administrator's token in a folder.
  private static func owner(of folder: String) throws -> UInt32 {
    var status = stat()
    let path = folder + "/" + AdministratorToken.fileName
    guard lstat(path, &status) == 0 else {
      throw Failure("\(path) cannot be examined: \(String(cString: strerror(errno)))")
    }
    return status.st_uid
  }

  /// Sends a line, and returns the JSON of a successful reply.
  ///
  /// - Throws: `Failure` with the sentence of an unsuccessful reply.
  mutating func success(_ line: String) async throws -> JSONValue {
    try JSONValue(json: try await reply(line), limits: .none)
  }

  /// Sends a line, and returns the text of a successful reply.
  ///
  /// - Throws: `Failure` with the sentence of an unsuccessful reply.
  mutating func reply(_ line: String) async throws -> String {
    try await outbound.write(ByteBuffer(string: line + "\n"))
    let reply = try await readLine()
    guard reply.utf8.first == UInt8(ascii: "+") else {
      throw Failure("the server refused the request: " + reply.dropFirst())
    }
    return String(reply.dropFirst())
  }

  private mutating func readLine() async throws -> String {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: received[..<end].filter { $0 != 0x0D }, as: UTF8.self)
        received.removeSubrange(...end)
        return line
      }
      guard let buffer = try await inbound.next() else {
        throw Failure("the server closed the connection before its reply; see the server's log")
      }
      received += buffer.readableBytesView
    }
  }
}

/// Arguments of the line protocol.
enum Line {
  /// Returns a text as a JSON string.
  static func quoted(_ text: String) -> String {
    var output = JSONOutput()
    output.append(string: text)
    return output.text
  }

  /// Returns JSON on one line. A CR or LF in JSON can always be a space. Other line breaks, such as U+2028, are
  /// characters of a string.
  static func joined(_ json: String) -> String {
    let bytes = json.utf8.map { byte in
      byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n") ? UInt8(ascii: " ") : byte
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
