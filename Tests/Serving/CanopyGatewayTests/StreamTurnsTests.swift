import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyGateway

/// The turns in which an event stream encodes a large value.
@Suite(.timeLimit(.minutes(20))) struct StreamTurnsTests {
  /// A result that a task sets.
  private final class Box<Value: Sendable>: Sendable {
    private let content = Mutex<Value?>(nil)

    var value: Value? { content.withLock { $0 } }

    func set(_ value: Value) { content.withLock { $0 = value } }
  }

  @Test func `each piece of the first value and of a large event is encoded in a turn`()
    async throws
  {
    let parts = try await LineParts()
    let engine = Task { await parts.run() }
    let text = String(repeating: "words ", count: 60_000)
    let path = try Path("a")
    func set(_ text: String) async throws {
      _ = try await parts.engine.transact { _ in Decision(try Write([.init(path, Node(text))]), ())
      }
    }
    try await set(text)
    let loop = NIOAsyncTestingEventLoop()
    let channel = NIOAsyncTestingChannel(loop: loop)
    let due = NIOLoopBoundBox<(() -> Void)?>.makeBoxSendingValue(nil, eventLoop: loop)
    let connection = try await loop.executeInContext { [operations = parts.operations] in
      let turns = LoopTurns(loop: loop) { due.value = $0 }
      return GatewayConnection(
        channel, operations,
        .makeBoxSendingValue(
          GatewayLoop(operations, loop: loop, turns: turns), eventLoop: loop))
    }
    let begun = Box<EventStream.Handle>()
    let beginning = Task { [operations = parts.operations] in
      begun.set(
        try await EventStream.Handle.begin(
          path, .all, as: .administrator, on: connection, in: operations, nil,
          keepAliveMilliseconds: 600_000))
    }
    try await eventually {
      await loop.run()
      return begun.value != nil
    }
    try await beginning.value
    let stream = try #require(begun.value)
    /// Reads an event, and returns it with the turns that its pieces have taken.
    func event() async throws -> (text: String, turns: Int) {
      var received: [UInt8] = []
      var turns = 0
      while !received.suffix(2).elementsEqual("\n\n".utf8) {
        let piece = Box<ByteBuffer?>()
        Task { piece.set(await stream.next()) }
        try await eventually {
          await loop.run()
          if piece.value != nil { return true }
          let hasTurn = try await loop.executeInContext {
            guard let body = due.value.take() else { return false }
            body()
            return true
          }
          if hasTurn { turns += 1 }
          return false
        }
        let bytes = try #require(piece.value ?? nil)
        // A piece, and a little more.
        #expect(bytes.readableBytes <= 66_000)
        received += bytes.readableBytesView
      }
      return (String(decoding: received, as: UTF8.self), turns)
    }
    func data(_ text: String) -> String {
      "event: put\ndata: {\"path\":\"/\",\"data\":\"\(text)\"}\n\n"
    }
    let first = try await event()
    #expect(first.text == data(text))
    #expect(first.turns >= text.utf8.count / 65_536)
    let changed = text + text
    try await set(changed)
    let second = try await event()
    #expect(second.text == data(changed))
    #expect(second.turns >= changed.utf8.count / 65_536)
    stream.end()
    await loop.run()
    parts.engine.stop()
    await engine.value
  }
}
