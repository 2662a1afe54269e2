import Dispatch
import Synchronization
import Testing

@testable import CanopyClient

/// The waiting uses of a state.
@Suite(.timeLimit(.minutes(20))) struct ExclusiveTests {
  /// Lists that the state's users append to.
  private final class Lists {
    var numbers: [Int] = []
  }

  @Test func `a waiting use is done when the call returns, whatever other threads do`() {
    let state = Exclusive(Lists())
    let missing = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      for number in 0..<1_000 {
        let isDone = Box()
        state.useAndWait { lists in
          lists.numbers.append(thread * 1_000 + number)
          isDone.value.store(true, ordering: .releasing)
        }
        if !isDone.value.load(ordering: .acquiring) { missing.add(1, ordering: .relaxed) }
        if number.isMultiple(of: 3) { state.use { $0.numbers.append(-1) } }
      }
    }
    #expect(missing.load(ordering: .relaxed) == 0)
    let all = Mutex<[Int]>([])
    state.useAndWait { lists in
      let numbers = lists.numbers
      all.withLock { $0 = numbers }
    }
    let numbers = all.withLock { $0 }
    #expect(numbers.count == 8 * (1_000 + 334))
    for thread in 0..<8 {
      #expect(numbers.filter { $0 >= 0 && $0 / 1_000 == thread }.isSorted)
    }
  }

  private final class Box: Sendable {
    let value = Atomic(false)
  }

  @Test func `a waiting use within a use follows it`() async {
    let state = Exclusive(Lists())
    let order = Received<String>()
    state.useAndWait { _ in
      state.useAndWait { _ in order.add("inner") }
      order.add("outer")
    }
    #expect(await order.wait(for: 2) == ["outer", "inner"])
  }

  @Test func `a function of the application may wait for a thread that waits for the state`() async
  {
    let state = Exclusive(Lists())
    let queue = DispatchQueue(label: "functions")
    let order = Received<String>()
    let (isBusy, isQueued) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let returned = DispatchSemaphore(value: 0)
    DispatchQueue(label: "first").async {
      state.use { _ in
        isBusy.signal()
        isQueued.wait()
        state.handOver(to: queue) { _ in
          // Until then, the waiting thread cannot go on.
          returned.wait()
          order.add("function")
        }
      }
    }
    isBusyWait(isBusy)
    DispatchQueue(label: "second").async {
      isQueued.signal()
      state.useAndWait { _ in order.add("use") }
      returned.signal()
    }
    #expect(await order.wait(for: 2) == ["function", "use"])
  }

  private func isBusyWait(_ semaphore: DispatchSemaphore) { semaphore.wait() }
}

extension [Int] {
  /// Whether the numbers ascend.
  fileprivate var isSorted: Bool { zip(self, dropFirst()).allSatisfy { $0 < $1 } }
}
