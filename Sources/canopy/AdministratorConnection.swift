import ArgumentParser
import CanopyAccounts
import CanopyTree
import NIOCore
import NIOPosix

/// Where a running server is, and the folder with the token that it knows its administrator by.
struct AdministratorOptions: ParsableArguments {
  @OptionGroup var folder: FolderOption
  @Option(help: "The server's address (127.0.0.1).") var host: String?
  @Option(help: "The server's port (7070).") var port: UInt16?

  /// Lets `body` talk to the server as its administrator.
  func use<R: Sendable>(
    _ body: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    let folder = try folder.folder()
    guard let token = try AdministratorToken.load(from: folder) else {
      throw Failure("there is no \(AdministratorToken.fileName) in \(folder)")
    }
    let host = try Setting.value("host", host, default: "127.0.0.1")
    let port = Int(try Setting.value("port", port, default: 7070))
    return try await AdministratorConnection.open(host: host, port: port) { connection in
      _ = try await connection.success("AUTH \(token.text)")
      return try await body(&connection)
    }
  }
}

/// A connection to a server: one request, one reply.
struct AdministratorConnection {
  private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
  private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
  private var received: [UInt8] = []

  /// Connects, and closes when `body` has ended.
  static func open<R: Sendable>(
    host: String, port: Int,
    _ body: @Sendable (inout AdministratorConnection) async throws -> R
  ) async throws -> R {
    let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>
    do {
      channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connect(host: host, port: port) { channel in
          channel.eventLoop.makeCompletedFuture {
            try NIOAsyncChannel(wrappingChannelSynchronously: channel)
          }
        }
    } catch {
      throw Failure("no server answers at \(host):\(port); name the address with --host and --port")
    }
    return try await channel.executeThenClose { inbound, outbound in
      var connection = AdministratorConnection(
        inbound: inbound.makeAsyncIterator(), outbound: outbound)
      return try await body(&connection)
    }
  }

  /// Sends a line, and returns what a reply that is a success says.
  ///
  /// - Throws: `Failure` with the sentence of one that is a failure.
  mutating func success(_ line: String) async throws -> JSONValue {
    try await outbound.write(ByteBuffer(string: line + "\n"))
    let reply = try await readLine()
    guard reply.utf8.first == UInt8(ascii: "+") else {
      throw Failure("the server says: " + reply.dropFirst())
    }
    return try JSONValue(json: String(reply.dropFirst()), limits: .none)
  }

  private mutating func readLine() async throws -> String {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: received[..<end].filter { $0 != 0x0D }, as: UTF8.self)
        received.removeSubrange(...end)
        return line
      }
      guard let buffer = try await inbound.next() else {
        throw Failure("the server has closed the connection")
      }
      received += buffer.readableBytesView
    }
  }
}
