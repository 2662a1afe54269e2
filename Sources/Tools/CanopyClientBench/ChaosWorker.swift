import CanopyClient
import struct CanopyTree.SplitMix64
import Foundation
import Synchronization

/// A client that writes at random below `/chaos` and checks all its events.
///
/// - Each write also increments `count/<name>`, which counts the applied writes.
/// - Transactions of all clients increment `shared`.
/// - `last/<name>` is the number of the client's last write: if it decreases, the client has
///   received outdated data, or, over the realtime protocol, its writes were sent again. There this is not checked, and
///   a transaction may fail because the connection was lost.
/// - A copy of `items`, maintained by child events alone, must equal each whole value.
final class ChaosWorker: Sendable {
  private struct State {
    var random: SplitMix64
    var made = 0
    var acknowledged = 0
    var transactions = 0
    var problems: [String] = []
    var lastSeen: [String: Int] = [:]
    /// The keys of the copy in order, and its data.
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

  private let transport: ChaosTransport

  init(_ database: Database, name: String, seed: UInt64, _ transport: ChaosTransport = .line) {
    self.database = database
    self.name = name
    self.transport = transport
    root = database.reference(withPath: "chaos")
    state = Mutex(State(random: SplitMix64(seed: seed)))
    observe()
  }

  /// The problems found, a sentence each.
  var problems: [String] { state.withLock { $0.problems } }
  /// The number of writes that the server acknowledged.
  var acknowledged: Int { state.withLock { $0.acknowledged } }
  /// The number of committed transactions.
  var transactions: Int { state.withLock { $0.transactions } }
  /// The number of received events.
  var events: Int { state.withLock { $0.events } }

  // MARK: Writing

  /// Writes while `goesOn` returns true, with a bounded number of unacknowledged writes.
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
          // All clients increment one number: a transaction may give up, and is then not committed.
          finished { state in
            if isCommitted { state.transactions += 1 } else { state.made -= 1 }
            if let error, !mayFail(error) {
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

  /// Whether a transaction may fail with an error.
  private func mayFail(_ error: any Error) -> Bool {
    switch (error as? DatabaseError)?.code {
    case .maxRetries: true
    case .unavailable: transport == .realtime
    default: false
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
    if transport == .line {
      root.child("last").observe(.value, with: { [self] in checkProgress($0) })
    }
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
        state.problems.append("\(child.key) differs from its events")
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

  // MARK: Finishing

  /// Announces that all its writes are done, waits for all other clients, and returns its copy of
  /// `/chaos` as JSON.
  func finish(with names: [String]) async throws -> String {
    try await root.child("done").child(name).setValue(true)
    for try await snapshot in root.values {
      let done = snapshot.childSnapshot(forPath: "done")
      if names.allSatisfy({ done.hasChild($0) }) { return canonical(snapshot.value) }
    }
    return "null"
  }
}

/// Returns a value as JSON with sorted keys.
func canonical(_ value: Any?) -> String {
  guard let value else { return "null" }
  let data = try? JSONSerialization.data(
    withJSONObject: value, options: [.sortedKeys, .fragmentsAllowed])
  return data.map { String(decoding: $0, as: UTF8.self) } ?? "\(value)"
}
