import CanopyEngine
import NIOCore
import NIOPosix
import Testing

@testable import CanopyEvents

/// Turns of an event loop with sockets.
struct LoopPollTests {
  /// A connection that has a number of turns.
  private final class Taker: TurnTaker {
    private let turns: LoopTurns
    private let whenTurn: () -> Bool
    var turnGroup: TurnGroup? { nil }

    init(_ turns: LoopTurns, whenTurn: @escaping () -> Bool) {
      self.turns = turns
      self.whenTurn = whenTurn
      turns.append(self)
    }

    func takeTurn(bytes: Int) -> Int {
      if whenTurn() { turns.append(self) }
      return LoopTurns.turnBytes
    }
  }

  /// Adds tasks, each when the one before it runs, as a busy loop has them.
  private final class Tasks {
    static let count = 20_000
    private let loop: any EventLoop
    private(set) var done = 0

    init(_ loop: any EventLoop) {
      self.loop = loop
      next()
    }

    private func next() {
      loop.assumeIsolated().execute { [self] in
        done += 1
        if done < Tasks.count { next() }
      }
    }
  }

  @Test func `a turn comes when the tasks of the loop are done, also those that they add`()
    async throws
  {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let loop = group.next()
    let promise = loop.makePromise(of: [Int].self)
    loop.execute {
      let turns = LoopTurns(loop: loop)
      var tasks = Tasks(loop)
      var done: [Int] = []
      let taker = Taker(turns) {
        done.append(tasks.done)
        tasks = Tasks(loop)
        if done.count == 3 { promise.succeed(done) }
        return done.count < 3
      }
      _ = taker
    }
    #expect(try await promise.futureResult.get() == [Tasks.count, Tasks.count, Tasks.count])
    try await group.shutdownGracefully()
  }

  @Test func `a loop has one pipe for all its turns, which closes with it`() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let loop = group.next()
    for _ in 0..<3 {
      let promise = loop.makePromise(of: Void.self)
      loop.execute {
        _ = Taker(LoopTurns(loop: loop)) {
          promise.succeed()
          return false
        }
      }
      try await promise.futureResult.get()
    }
    #expect(LoopPoll.count(of: loop) == 1)
    try await group.shutdownGracefully()
    #expect(LoopPoll.count(of: loop) == 0)
  }
}
