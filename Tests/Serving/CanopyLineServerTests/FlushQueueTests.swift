import NIOEmbedded
import Testing

@testable import CanopyEvents

struct FlushQueueTests {
  private final class Connection: Flushable {
    var waitsForFlush = false
    private(set) var flushes = 0
    var onFlush: () -> Void = {}

    func flush() {
      flushes += 1
      onFlush()
    }
  }

  @Test func `a connection is flushed once, however often it is appended`() {
    let loop = EmbeddedEventLoop()
    var ends = 0
    let queue = FlushQueue(loop: loop) { ends += 1 }
    let (connection, other) = (Connection(), Connection())
    queue.append(connection)
    queue.append(connection)
    queue.append(other)
    #expect(connection.flushes == 0)
    loop.run()
    #expect(connection.flushes == 1 && other.flushes == 1 && ends == 1)
  }

  @Test func `a connection that has more to send when it is flushed is flushed again`() {
    let loop = EmbeddedEventLoop()
    let queue = FlushQueue(loop: loop) {}
    let connection = Connection()
    connection.onFlush = { [unowned connection] in
      if connection.flushes == 1 { queue.append(connection) }
    }
    queue.append(connection)
    loop.run()
    #expect(connection.flushes == 2 && !connection.waitsForFlush)
  }
}
