import CanopyEvents
import CanopySession
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyGateway

/// The end of a connection whose socket has not taken all output.
@Suite(.timeLimit(.minutes(20))) struct HeldCloseTests {
  @Test(arguments: [CloseMode.all, .output])
  func `a close waits until the socket has taken the output before it`(mode: CloseMode) throws {
    let wire = try ClosingWire()
    wire.socket.isFull = true
    wire.channel.writeAndFlush(ByteBuffer(string: "a long response"), promise: nil)
    wire.channel.close(mode: mode, promise: nil)
    wire.channel.embeddedEventLoop.run()
    #expect(wire.socket.closes.isEmpty)
    wire.socket.isFull = false
    #expect(wire.socket.closes == [mode])
  }

  @Test func `a close without output before it happens at once`() throws {
    let wire = try ClosingWire()
    wire.channel.writeAndFlush(ByteBuffer(string: "a response"), promise: nil)
    wire.channel.close(promise: nil)
    #expect(wire.socket.closes == [.all])
  }

  @Test func `a close of both sides replaces one of the output that waits`() throws {
    let wire = try ClosingWire()
    wire.socket.isFull = true
    let first = wire.channel.embeddedEventLoop.makePromise(of: Void.self)
    let second = wire.channel.embeddedEventLoop.makePromise(of: Void.self)
    wire.channel.close(mode: .output, promise: first)
    wire.channel.close(mode: .all, promise: second)
    #expect(wire.socket.closes.isEmpty)
    wire.socket.isFull = false
    #expect(wire.socket.closes == [.all])
    try first.futureResult.wait()
    try second.futureResult.wait()
  }

  @Test func `a connection that is cut off does not wait`() throws {
    let wire = try ClosingWire()
    wire.socket.isFull = true
    wire.channel.close(mode: .output, promise: nil)
    wire.channel.cutOff()
    #expect(wire.socket.closes == [.all, .output])
    let other = try ClosingWire()
    other.socket.isFull = true
    other.channel.cutOff()
    #expect(other.socket.closes == [.all])
  }

  @Test func `a client that reads nothing for the given time is not waited for`() throws {
    let wire = try ClosingWire(unreadSeconds: 60)
    wire.socket.isFull = true
    wire.unsent = 3
    wire.channel.close(promise: nil)
    let loop = wire.channel.embeddedEventLoop
    for bytes in [2, 1] {
      wire.unsent = bytes
      loop.advanceTime(by: .seconds(60))
      #expect(wire.socket.closes.isEmpty, "the client has read")
    }
    loop.advanceTime(by: .milliseconds(59_999))
    #expect(wire.socket.closes.isEmpty)
    loop.advanceTime(by: .milliseconds(1))
    #expect(wire.socket.closes == [.all])
  }

  @Test(arguments: Ending.allCases)
  func `a client that reads late gets the whole of a large response`(ending: Ending) async throws {
    try await withGateway({ $0.shutdownSeconds = 30 }) { server in
      let part = "\"" + String(repeating: "x", count: 1_000_000) + "\""
      try await server.connect { client in
        for number in 0..<8 {
          let put = try await client.request("PUT", "/open/large/\(number)k.json", [:], part)
          #expect(put.status == 200, "\(put)")
        }
      }
      try await HTTPClient.connect(server.port, receiveBytes: 65_536) { client in
        try await client.send("GET /open/large.json \(ending.fields)\r\n\r\n")
        if ending.endsInput { client.finish() }
        // The head has come, so the response has begun.
        #expect(try await client.head().status == 200)
        if ending == .shutdown { await server.shutDown() }
        let text = try await client.end()
        #expect(text.count { $0 == UInt8(ascii: "x") } == 8_000_000)
      }
    }
  }

  /// The reason for which a connection ends after a response.
  enum Ending: CaseIterable {
    case halfClose, oldHalfClose, close, upgrade, shutdown

    var fields: String {
      switch self {
      case .halfClose, .shutdown: "HTTP/1.1\r\nHost: x"
      case .oldHalfClose: "HTTP/1.0"
      case .close: "HTTP/1.1\r\nHost: x\r\nConnection: close"
      case .upgrade: "HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c"
      }
    }

    var endsInput: Bool { self == .halfClose || self == .oldHalfClose }
  }
}

/// A connection with a socket that may be full.
private final class ClosingWire {
  let channel = EmbeddedChannel()
  let socket = ClosingSocket()
  /// The bytes that the socket has not taken.
  var unsent = 0

  init(unreadSeconds: Int64 = 60) throws {
    let close = HeldClose(unreadSeconds: unreadSeconds) { [unowned self] _ in unsent }
    try channel.pipeline.syncOperations.addHandlers([socket, close])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
  }
}

/// Notes closes, and completes writes only while it is not full.
private final class ClosingSocket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  private var held: [EventLoopPromise<Void>] = []
  private(set) var closes: [CloseMode] = []

  var isFull = false {
    didSet {
      guard !isFull else { return }
      let promises = held
      held = []
      for promise in promises { promise.succeed() }
    }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard let promise else { return }
    if isFull { held.append(promise) } else { promise.succeed() }
  }

  func flush(context: ChannelHandlerContext) {}

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    closes.append(mode)
    promise?.succeed()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    isFull = false
  }
}
