import CanopyClient
import Foundation
import Synchronization

/// A client that writes at random below `/chaos`, and checks all that it is told.
///
/// - Each of its writes also adds one to `count/<name>`: so that number tells how often they were made.
/// - Transactions add one to `shared`, which all clients do.
/// - `last/<name>` has the number of its last write: who sees it become smaller has seen the past.
/// - Of `items` it keeps a copy by child events alone, which must equal each whole value that it is told.
final class ChaosWorker: Sendable {
  private struct State {
    var random: Seeded
    var made = 0
    var acknowledged = 0
    var transactions = 0
    var problems: [String] = []
    var lastSeen: [String: Int] = [:]
    /// The copy by child events: keys in order, and the data.
    var keys: [String] = []
    var data: [String: String] = [:]
    var waiting: [CheckedContinuation<Void, Never>] = []
    var events = 0
  }

  let name: String
  private let database: Database
  private let state: Mutex<State>
  private let root: DatabaseReference
  private static let outstandingMax = 20

  init(_ database: Database, name: String, seed: UInt64) {
    self.database = database
    self.name = name
    root = database.reference(withPath: "chaos")
    state = Mutex(State(random: Seeded(seed: seed)))
    observe()
  }

  /// What went wrong, a sentence each.
  var problems: [String] { state.withLock { $0.problems } }
  /// Writes that the server has acknowledged.
  var acknowledged: Int { state.withLock { $0.acknowledged } }
  /// Transactions that were committed.
  var transactions: Int { state.withLock { $0.transactions } }
  /// Events that were told.
  var events: Int { state.withLock { $0.events } }

  // MARK: Writing

  /// Writes until told to stop, never with more than some writes that are not acknowledged.
  func write(while goesOn: () -> Bool) async {
    while goesOn() {
      writeOnce()
      await wait { $0.made - $0.acknowledged - $0.transactions < Self.outstandingMax }
    }
    await wait { $0.made == $0.acknowledged + $0.transactions }
  }

  private func writeOnce() {
    let (number, what, item, text) = state.withLock { state -> (Int, Int, String, String) in
      state.made += 1
      return (
        state.made, Int.random(in: 0..<10, using: &state.random),
        "k\(Int.random(in: 0..<12, using: &state.random))",
        String(UInt32.random(in: 0...999, using: &state.random))
      )
    }
    if what == 0 {
      root.child("shared").runTransactionBlock(
        { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        },
        andCompletionBlock: { [self] error, isCommitted, _ in
          // Both add to one number at once: a transaction may well give up. It has then not been made.
          finished { state in
            if isCommitted { state.transactions += 1 } else { state.made -= 1 }
            if let error, (error as? DatabaseError)?.code != .maxRetries {
              state.problems.append("a transaction failed: \(error)")
            }
          }
        })
      return
    }
    var changes: [String: Any] = [
      "count/\(name)": ServerValue.increment(1), "last/\(name)": number,
    ]
    switch what {
    case 1: changes["items/\(item)"] = NSNull()
    case 2: changes["items/\(item)/deep/\(text.count)"] = text
    default: changes["items/\(item)"] = ["text": text, "by": name]
    }
    root.updateChildValues(changes) { [self] error, _ in
      finished { state in
        state.acknowledged += 1
        if let error { state.problems.append("write \(number) failed: \(error)") }
      }
    }
  }

  private func finished(_ change: (inout State) -> Void) {
    let waiting = state.withLock { state in
      change(&state)
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  private func wait(until isEnough: @Sendable (borrowing State) -> Bool) async {
    while true {
      if state.withLock({ isEnough($0) }) { return }
      await withCheckedContinuation { continuation in
        let isReady = state.withLock { state in
          if isEnough(state) { return true }
          state.waiting.append(continuation)
          return false
        }
        if isReady { continuation.resume() }
      }
    }
  }

  // MARK: Observing

  private func observe() {
    let items = root.child("items")
    items.observe(.childAdded, andPreviousSiblingKeyWith: { [self] in place($0, $1, isNew: true) })
    items.observe(
      .childChanged,
      andPreviousSiblingKeyWith: { [self] snapshot, _ in
        state.withLock { state in
          state.events += 1
          guard state.data[snapshot.key] != nil else {
            return state.problems.append("\(snapshot.key) changed, but was not there")
          }
          state.data[snapshot.key] = Self.text(snapshot)
        }
      })
    items.observe(
      .childRemoved,
      with: { [self] snapshot in
        state.withLock { state in
          state.events += 1
          let data = state.data.removeValue(forKey: snapshot.key)
          if data == nil { state.problems.append("\(snapshot.key) went, but was not there") }
          state.keys.removeAll { $0 == snapshot.key }
        }
      })
    items.observe(.value, with: { [self] in compare($0) })
    root.child("last").observe(.value, with: { [self] in checkProgress($0) })
  }

  private func place(_ snapshot: DataSnapshot, _ previous: String?, isNew: Bool) {
    state.withLock { state in
      state.events += 1
      if state.data.updateValue(Self.text(snapshot), forKey: snapshot.key) != nil {
        return state.problems.append("\(snapshot.key) was added, but was there")
      }
      guard let previous else { return state.keys.insert(snapshot.key, at: 0) }
      guard let index = state.keys.firstIndex(of: previous) else {
        return state.problems.append("\(snapshot.key) came after \(previous), which is not there")
      }
      state.keys.insert(snapshot.key, at: index + 1)
    }
  }

  private func compare(_ snapshot: DataSnapshot) {
    let children = snapshot.childSnapshots
    state.withLock { state in
      state.events += 1
      if state.keys != children.map(\.key) {
        state.problems.append("by child events \(state.keys), but \(children.map(\.key))")
      }
      for child in children where state.data[child.key] != Self.text(child) {
        state.problems.append("\(child.key) differs from what its events told")
      }
    }
  }

  private func checkProgress(_ snapshot: DataSnapshot) {
    guard let numbers = snapshot.value as? [String: Int] else { return }
    state.withLock { state in
      state.events += 1
      for (name, number) in numbers {
        if number < state.lastSeen[name] ?? 0 {
          state.problems.append(
            "write \(number) of \(name) was seen after \(state.lastSeen[name] ?? 0)")
        }
        state.lastSeen[name] = number
      }
    }
  }

  private static func text(_ snapshot: DataSnapshot) -> String { canonical(snapshot.value) }

  // MARK: The end

  /// Says that it has written everything, waits for all others to have said so, and returns all that it
  /// has of `/chaos` as JSON.
  func finish(with names: [String]) async throws -> String {
    try await root.child("done").child(name).setValue(true)
    for try await snapshot in root.values {
      let done = snapshot.childSnapshot(forPath: "done")
      if names.allSatisfy({ done.hasChild($0) }) { return canonical(snapshot.value) }
    }
    return "null"
  }
}

/// A value as JSON with its keys in order.
func canonical(_ value: Any?) -> String {
  guard let value else { return "null" }
  let data = try? JSONSerialization.data(
    withJSONObject: value, options: [.sortedKeys, .fragmentsAllowed])
  return data.map { String(decoding: $0, as: UTF8.self) } ?? "\(value)"
}
