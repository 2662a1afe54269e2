internal import CanopyEvents
internal import CanopySession
internal import NIOCore
internal import Synchronization

/// Identifies a connection of the realtime protocol. The client names it when it connects again.
///
/// Any client that knows it can end the connection, so it is random, with 128 bits.
struct RealtimeSessionID: Hashable {
  private let high: UInt64
  private let low: UInt64

  /// Creates a new one from random bytes.
  ///
  /// - Parameter random: returns so many random bytes.
  init(random: (Int) -> [UInt8]) {
    func number() -> UInt64 { random(8).reduce(0) { $0 << 8 | UInt64($1) } }
    high = number()
    low = number()
  }

  /// Reads the text of one; nil for another text.
  init?(_ text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 32, let high = RealtimeSessionID.number(digits[..<16]),
      let low = RealtimeSessionID.number(digits[16...])
    else { return nil }
    self.high = high
    self.low = low
  }

  /// The text for the client: 32 hexadecimal digits.
  var text: String { RealtimeSessionID.text(high) + RealtimeSessionID.text(low) }

  private static func text(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
    var number: UInt64 = 0
    for digit in digits {
      switch digit {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(digit - 0x30)
      case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(digit - 0x57)
      default: return nil
      }
    }
    return number
  }
}

/// The connections of the realtime protocol, until the last of their changes has an outcome. Safe to use from any
/// thread.
///
/// A client that lost its connection sends the requests again whose answers it did not get. The server may not know of
/// the loss yet, and may still have requests of the earlier connection to read. If it carried them out after those of
/// the new connection, old data would overwrite new data. So a new connection begins when the changes of the earlier one
/// have ended.
final class RealtimeSessions: Sendable {
  private struct Entry {
    let loop: any EventLoop
    /// Kept until the changes of the connection have ended, which removes the entry.
    let handler: NIOLoopBound<RealtimeHandler>
  }

  private let entries = Mutex<[RealtimeSessionID: Entry]>([:])
  /// The longest time that a new connection waits for the changes of the earlier one.
  static let patience = TimeAmount.seconds(5)

  /// Adds a connection. Call it on the event loop.
  func add(_ handler: RealtimeHandler, _ id: RealtimeSessionID, on loop: any EventLoop) {
    let entry = Entry(loop: loop, handler: NIOLoopBound(handler, eventLoop: loop))
    entries.withLock { $0[id] = entry }
  }

  /// Removes a connection.
  func remove(_ id: RealtimeSessionID) {
    entries.withLock { $0[id] = nil }
  }

  /// The number of connections.
  var count: Int { entries.withLock { $0.count } }

  /// Ends the connection with an ID, because its client has connected again.
  ///
  /// - Parameter loop: the event loop of the result.
  /// - Returns: succeeds when the changes of the connection have an outcome, at the latest after `patience`; at once if
  ///   there is no such connection.
  func end(_ id: RealtimeSessionID, on loop: any EventLoop) -> EventLoopFuture<Void> {
    guard let entry = entries.withLock({ $0[id] }) else { return loop.makeSucceededVoidFuture() }
    let promise = loop.makePromise(of: Void.self)
    let timeout = loop.scheduleTask(in: RealtimeSessions.patience) { promise.succeed() }
    promise.futureResult.whenComplete { _ in timeout.cancel() }
    entry.loop.execute {
      entry.handler.value.replace { promise.succeed() }
    }
    return promise.futureResult
  }
}
