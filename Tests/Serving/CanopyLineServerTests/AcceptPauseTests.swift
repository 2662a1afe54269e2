import CanopyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

@Suite struct AcceptPauseTests {
  /// The number of times that an idle connection was to end.
  private final class Counter {
    var count = 0
  }

  private let log = LineLog()
  private let channel = EmbeddedChannel()
  private let rooms: Counter

  init() throws {
    let rooms = Counter()
    self.rooms = rooms
    try channel.pipeline.syncOperations.addHandler(
      AcceptPause(logger: log.logger) { rooms.count += 1 })
  }

  private func fail(_ code: CInt) {
    channel.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
  }

  /// Whether the listener reads; nil if the option was not set.
  private var isReading: Bool? {
    channel.options.last { $0.option is ChannelOptions.Types.AutoReadOption }?.value as? Bool
  }

  @Test(arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
  func `a listener that cannot accept pauses for a moment`(_ code: CInt) throws {
    #expect(isReading == nil)
    fail(code)
    #expect(isReading == false)
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(50))
    fail(code)
    channel.embeddedEventLoop.advanceTime(
      by: AcceptPause.pause - .milliseconds(50) - .nanoseconds(1))
    #expect(isReading == false)
    channel.embeddedEventLoop.advanceTime(by: .nanoseconds(1))
    #expect(isReading == true)
    fail(code)
    #expect(isReading == false)
    channel.embeddedEventLoop.advanceTime(by: AcceptPause.pause)
    #expect(isReading == true)
    // One idle connection ends for each pause.
    #expect(rooms.count == 2)
    #expect(log.lines.count == 1)
    try channel.throwIfErrorCaught()
  }

  @Test func `an episode writes one line at its beginning and one at its end`() {
    for _ in 0..<500 {
      fail(EMFILE)
      #expect(isReading == false)
      channel.embeddedEventLoop.advanceTime(by: AcceptPause.pause)
      #expect(isReading == true)
    }
    #expect(log.lines.count == 1)
    #expect(log.lines[0].hasPrefix("warning no connection can be accepted for now; "))
    #expect(log.lines[0].contains("Too many open files"))
    channel.embeddedEventLoop.advanceTime(by: AcceptPause.calm)
    #expect(log.lines.count == 2)
    #expect(log.lines[1].hasPrefix("notice connections are accepted again"))
    fail(EMFILE)
    #expect(log.lines.count == 3, "another episode")
  }

  @Test func `other errors are passed on, and a closed listener is not changed`() throws {
    fail(ECONNABORTED)
    #expect(isReading == nil && log.lines.isEmpty)
    #expect(throws: IOError.self) { try channel.throwIfErrorCaught() }
    fail(EMFILE)
    _ = try channel.finish()
    channel.embeddedEventLoop.advanceTime(by: .seconds(60))
    #expect(isReading == false)
    #expect(log.lines.count == 1)
  }
}
