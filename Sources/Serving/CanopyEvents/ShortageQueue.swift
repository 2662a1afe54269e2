package import CanopySession
internal import NIOCore

/// The connections of one event loop that are not read while the server is short of memory. One timer looks for the end of
/// the shortage, however many connections wait; then all of them wait for a turn. Use it on that loop only.
package final class ShortageQueue {
  /// The time between two looks at the memory.
  package static let milliseconds: Int64 = 10

  private unowned let turns: LoopTurns
  private let loop: any EventLoop
  private var waiting: [ObjectIdentifier: any TurnTaker] = [:]
  /// Whether the timer is set.
  private var isTimed = false
  /// The number of looks at the memory.
  package private(set) var looks = 0

  init(_ turns: LoopTurns, _ loop: any EventLoop) {
    self.turns = turns
    self.loop = loop
  }

  /// Gives a connection a turn when the server is no longer short of memory.
  package func append(_ connection: any TurnTaker, until memory: MemoryBudget) {
    loop.assertInEventLoop()
    waiting[ObjectIdentifier(connection)] = connection
    lookLater(memory)
  }

  /// Removes a connection that has ended. Returns whether it waited.
  package func remove(_ connection: any TurnTaker) -> Bool {
    waiting.removeValue(forKey: ObjectIdentifier(connection)) != nil
  }

  private func lookLater(_ memory: MemoryBudget) {
    guard !isTimed else { return }
    isTimed = true
    loop.assumeIsolated().scheduleTask(in: .milliseconds(Self.milliseconds)) { [weak self] in
      self?.look(memory)
    }
  }

  private func look(_ memory: MemoryBudget) {
    isTimed = false
    looks += 1
    guard !waiting.isEmpty else { return }
    guard !memory.isShort else { return lookLater(memory) }
    var due: [ObjectIdentifier: any TurnTaker] = [:]
    swap(&due, &waiting)
    for connection in due.values { turns.append(connection) }
  }
}
