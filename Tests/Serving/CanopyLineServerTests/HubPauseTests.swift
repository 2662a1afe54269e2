import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyEvents

/// Subscriptions whose authorizations are late.
@Suite(.timeLimit(.minutes(20))) struct HubPauseTests {
  @Test func `a subscription that pauses gets no events, and then all of them as one`() async throws
  {
    let looks = Mutex<Int64>(0)
    var configuration = Engine.Configuration.forTests
    configuration.elapsed = {
      looks.withLock { looks in
        looks += 1
        return .milliseconds(looks)
      }
    }
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop)
      let hub = EventHub.test(inbox, engine)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      let listening = Listening(try Path("place"), form: .value)
      let place = try Path("open")
      // The second verdict of the second listener waits for the test.
      let asked = Atomic(0)
      let isSent = DispatchSemaphore(value: 0)
      let listeners = NIOLoopBoundBox<[ListenerOfOne]>.makeBoxSendingValue([], eventLoop: loop)
      for number in 0..<2 {
        let authorization = ListenAuthorization { _, _ in
          if number == 1, asked.add(1, ordering: .relaxed).newValue == 2 { isSent.wait() }
          return ListenVerdict(isAllowed: true, paths: [place])
        }
        try await loop.executeInContext {
          let listener = ListenerOfOne(FlushQueue(loop: loop) {})
          listeners.value.append(listener)
          let subscription = HubSubscription(number: 1, isAuthorized: true, subscriber: listener)
          listener.subscription = subscription
          hub.begin(subscription, listening, authorization) { _ in }
        }
      }
      for _ in 0..<2 {
        _ = try await engine.transact { _ in Decision(nil, ()) }
        await loop.run()
      }
      _ = try await engine.transact { _ in
        Decision(
          try .update(
            .root,
            [
              (Location("open"), WriteValue(true)), (Location("place"), WriteValue(1)),
            ]), ())
      }
      await loop.run()
      let resumed = NIOLoopBoundBox<[Int64]>.makeBoxSendingValue([], eventLoop: loop)
      let (counts, areSent) = try await loop.executeInContext {
        let all = listeners.value
        hub.wait(for: all[1]) { resumed.value.append($0.sequence) }
        return (all.map(\.lines.count), all.map { hub.drain(for: $0) })
      }
      #expect(counts == [1, 0] && areSent == [true, false])
      #expect(try await loop.executeInContext { resumed.value } == [])
      isSent.signal()
      _ = try await engine.transact { _ in Decision(nil, ()) }
      await loop.run()
      let lines = try await loop.executeInContext { listeners.value.map(\.lines) }
      #expect(lines[0] == lines[1] && lines[1].count == 1)
      #expect(try await loop.executeInContext { resumed.value } == [1])
      let areAllSent = try await loop.executeInContext { hub.drain(for: listeners.value[1]) }
      #expect(areAllSent)
      await loop.shutdownGracefully()
    }
  }
}
