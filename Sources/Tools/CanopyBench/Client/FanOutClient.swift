import Foundation
import Histogram

/// The protocol by which a system notifies many listeners of a write.
struct FanOutDialect<Framer: ReplyFramer> {
  /// The requests of each listener, one after the other.
  var subscribe: [[UInt8]]
  /// The first requests of the publisher.
  var logIn: [[UInt8]]
  /// Returns the request that publishes a text.
  var publish: (_ text: String) -> [UInt8]
  /// The first characters of an event.
  var eventPrefix: StaticString
  /// The number of bytes in the text.
  var textBytes: Int

  /// Returns the text of an event: its number and padding.
  func text(_ number: Int) -> String {
    let digits = String(number)
    let head = String(repeating: "0", count: max(0, 12 - digits.count)) + digits
    return head + String(repeating: "x", count: max(0, textBytes - head.utf8.count))
  }
}

/// One publisher and many listeners. Measures the time until a write reaches all.
///
/// A fixed number of writes is under way at a time. The next one follows when one has reached every listener. A latency
/// is the time from sending a write until the last listener has received it.
final class FanOutClient<Framer: ReplyFramer> {
  /// The contents of events are checked for one of this many listeners.
  private static var checkedListeners: Int { 16 }

  private let dialect: FanOutDialect<Framer>
  private let window: Int
  private let listeners: [Channel<Framer>]
  private let publisher: Channel<Framer>
  private let poller: Poller
  /// The number of bytes in a received event.
  let eventBytes: Int

  /// - Parameters:
  ///   - ports: the ports over which the listeners are spread. The publisher uses the first.
  ///   - window: the number of writes under way.
  init(
    _ dialect: FanOutDialect<Framer>, ports: [Int], listeners count: Int, window: Int = 4
  ) throws {
    guard let port = ports.first else { throw BenchFailure("there is no port for listeners") }
    self.dialect = dialect
    self.window = window
    publisher = try Channel(port: port)
    for request in dialect.logIn { try Self.succeed(publisher, request) }
    listeners = try (0..<count).map { index in
      let listener = try Channel<Framer>(port: ports[index % ports.count], capacity: 8 * 1024)
      for request in dialect.subscribe { try Self.succeed(listener, request) }
      return listener
    }
    // The first events of a subscription are over when the first event of this publisher has arrived.
    try Self.succeed(publisher, dialect.publish(dialect.text(0)))
    let first = dialect.text(0)
    var bytes = 0
    for listener in listeners {
      var reply = try listener.awaitReply()
      while !reply.bytes.contains(first) { reply = try listener.awaitReply() }
      bytes = reply.bytes.count
    }
    eventBytes = bytes
    poller = try Poller()
    for (id, channel) in (listeners + [publisher]).enumerated() {
      channel.socket.stopWaiting()
      try poller.add(channel.socket, id: id)
    }
  }

  private static func succeed(_ channel: Channel<Framer>, _ request: [UInt8]) throws {
    let reply = try channel.exchange(request)
    guard !reply.frame.isError else { throw BenchFailure(reply.text) }
  }

  /// - Parameter usage: returns the CPU seconds that the server has used.
  func run(warmUpSeconds: Double, seconds: Double, usage: () throws -> Double) throws -> Sample {
    var sample = Sample()
    // Listeners receive events in order, so the count of a listener is the number of its next event.
    var received = Array(repeating: 0, count: listeners.count)
    var missing = Array(repeating: listeners.count, count: window)
    var sentAt = Array(repeating: Int64(0), count: window)
    var published = 0
    var completed = 0
    var acknowledged = 0
    var times = RunTimes(warmUpSeconds: warmUpSeconds, seconds: seconds)

    func publish() throws {
      missing[published % window] = listeners.count
      sentAt[published % window] = monotonicNanoseconds()
      published += 1
      publisher.output += dialect.publish(dialect.text(published))
      guard try publisher.flush() else { throw BenchFailure("the socket accepts no further write") }
    }

    for _ in 0..<window { try publish() }
    while completed < published || acknowledged < published {
      try poller.wait { id, _ in
        let channel = id < listeners.count ? listeners[id] : publisher
        try channel.receive()
        while let reply = try channel.nextReply() {
          guard id < listeners.count else {
            if reply.frame.isError { sample.addWrong(reply.text) }
            acknowledged += 1
            continue
          }
          let number = received[id]
          received[id] += 1
          if times.isMeasuring { sample.operations += 1 }
          let content = UnsafeRawBufferPointer(rebasing: reply.bytes[reply.frame.contentStart...])
          if !content.starts(with: dialect.eventPrefix)
            || id % Self.checkedListeners == 0 && !reply.bytes.contains(dialect.text(number + 1))
          {
            sample.addWrong("event \(number + 1): \(reply.text.prefix(200))")
          }
          let place = number % window
          missing[place] -= 1
          guard missing[place] == 0 else { continue }
          completed += 1
          if times.isMeasuring {
            sample.latencies.record(UInt64(monotonicNanoseconds() - sentAt[place]))
          }
          if times.isSending { try publish() }
        }
      }
      try times.advance(&sample, usage)
    }
    return sample
  }
}
