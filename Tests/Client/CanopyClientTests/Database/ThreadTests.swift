import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import CanopyClient

/// Many threads that use one database at once.
@Suite(.timeLimit(.minutes(20))) struct ThreadTests {
  /// The outcomes of the operations.
  private struct Outcomes {
    var ended = 0
    var counted = 0
    var committed = 0
    var problems: [String] = []
  }

  @Test func `eight threads with a thousand mixed operations each end with equal trees`()
    async throws
  {
    let (threads, operations) = (8, 1_000)
    var seeds = SeededGenerator(printingSeedFor: "ThreadTests")
    try await withBackend { backend in
      let database = try await backend.client()
      let root = database.reference(withPath: "mixed")
      let other = try await backend.client().reference(withPath: "mixed")
      let own = Mutex(Node.absent)
      let others = Mutex(Node.absent)
      root.observe(.value, with: { snapshot in own.withLock { $0 = snapshot.node } })
      other.observe(.value, with: { snapshot in others.withLock { $0 = snapshot.node } })
      let outcomes = Mutex(Outcomes())
      let ended = Received<Int>()
      let end: @Sendable ((inout Outcomes) -> Void) -> Void = { change in
        let count = outcomes.withLock { outcomes in
          change(&outcomes)
          outcomes.ended += 1
          return outcomes.ended
        }
        if count == threads * operations { ended.add(count) }
      }
      for number in 0..<threads {
        let seed = seeds.next()
        DispatchQueue(label: "thread \(number)").async {
          var random = SplitMix64(seed: seed)
          for _ in 0..<operations { Self.operate(root, &random, end) }
        }
      }
      await ended.wait(for: 1)
      _ = try await other.getData()
      let truth = try backend.node("mixed")
      try await eventually {
        own.withLock { $0 } == truth && others.withLock { $0 } == truth
      }
      #expect(own.withLock { $0 } == truth && others.withLock { $0 } == truth)
      let all = outcomes.withLock { $0 }
      #expect(all.problems.isEmpty, "\(all.problems.prefix(3))")
      #expect(truth.child("count").integerValue == Int64(all.counted))
      #expect(truth.child("sum").integerValue == Int64(all.committed))
      database.repository.use { state in
        ended.add(state.tree.writes.records.count + state.tree.transactions.all.count)
      }
      #expect(await ended.wait(for: 2)[1] == 0, "nothing is pending")
    }
  }

  /// Starts a random operation; `end` receives its outcome.
  private static func operate(
    _ root: DatabaseReference, _ random: inout SplitMix64,
    _ end: @escaping @Sendable ((inout Outcomes) -> Void) -> Void
  ) {
    let place = root.child("items/k\(Int.random(in: 0..<40, using: &random))")
    let value = Int.random(in: 0..<1_000, using: &random)
    let finish: @Sendable ((any Error)?) -> Void = { error in
      end { if let error { $0.problems.append("\(error)") } }
    }
    switch Int.random(in: 0..<10, using: &random) {
    case 0...2: place.setValue(["v": value]) { error, _ in finish(error) }
    case 3: place.removeValue { error, _ in finish(error) }
    case 4: place.child("deep").setValue(value, andPriority: value) { error, _ in finish(error) }
    case 5:
      root.updateChildValues([
        "items/k0/u": value, "other/\(value % 7)": NSNull(),
        "count": CanopyClient.ServerValue.increment(1),
      ]) { error, _ in
        end { outcomes in
          outcomes.counted += 1
          if let error { outcomes.problems.append("\(error)") }
        }
      }
    case 6, 7:
      root.child("sum").runTransactionBlock(
        { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        },
        andCompletionBlock: { error, isCommitted, _ in
          end { outcomes in
            if isCommitted { outcomes.committed += 1 }
            if let error { outcomes.problems.append("\(error)") }
          }
        })
    case 8:
      // Writes of this client may override it.
      place.runTransactionBlock(
        { data in
          data.childData(byAppendingPath: "t").value = value
          return .success(withValue: data)
        },
        andCompletionBlock: { error, _, _ in
          let code = (error as? DatabaseError)?.code
          end { if let error, code != .overriddenBySet { $0.problems.append("\(error)") } }
        })
    default:
      let handle = place.observe(.value, with: { _ in })
      place.getData { error, _ in finish(error) }
      place.removeObserver(withHandle: handle)
    }
  }
}
