import CanopyClient
import struct CanopyTree.SplitMix64
import Foundation
import Synchronization

/// A client that writes at random below `/chaos` and checks all its events.
///
/// - Each write also increments `made/<name>/w<number>`, which counts how often it was applied.
/// - Transactions of all clients increment `shared`.
/// - `last/<name>` is the number of the client's last write: if it decreases, the client has received outdated data.
/// - A copy of `items`, maintained by child events alone, must equal each whole value.
///
/// The realtime protocol gives a request no identity that outlasts its connection. So a write whose reply was lost is
/// applied again, and the client cannot know whether a transaction whose reply was lost was applied. There `last` of
/// another client may decrease, but only to one of the writes that may have been outstanding, and a transaction may fail
/// as unavailable. ``ChaosTally`` checks the numbers that remain.
final class ChaosWorker: Sendable {
  private struct State {
    var random: SplitMix64
    /// The number of the last write.
    var written = 0
    var outstanding = 0
    var tally: ChaosTally
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
  /// The most writes of a client that wait for a reply.
  static let outstandingMax = 20

  private let transport: ChaosTransport

  init(_ database: Database, name: String, seed: UInt64, _ transport: ChaosTransport = .line) {
    self.database = database
    self.name = name
    self.transport = transport
    root = database.reference(withPath: "chaos")
    state = Mutex(State(random: SplitMix64(seed: seed), tally: ChaosTally(name: name)))
    observe()
  }

  /// The problems found, a sentence each.
  var problems: [String] { state.withLock { $0.problems } }
  /// The number of writes and transactions, by outcome.
  var tally: ChaosTally { state.withLock { $0.tally } }
  /// The number of received events.
  var events: Int { state.withLock { $0.events } }

  // MARK: Writing

  /// Writes while `goesOn` returns true, with a bounded number of unacknowledged writes.
  func write(while goesOn: () -> Bool) async {
    while goesOn() {
      writeOnce()
      await wait { $0.outstanding < Self.outstandingMax }
    }
    await wait { $0.outstanding == 0 }
  }

  private func writeOnce() {
    let (number, what, item, text) = state.withLock { state -> (Int, Int, String, String) in
      state.outstanding += 1
      let what = Int.random(in: 0..<10, using: &state.random)
      if what > 0 { state.written += 1 }
      return (
        state.written, what,
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
          finished { state in
            if isCommitted {
              state.tally.committed += 1
            } else {
              switch (error as? DatabaseError)?.code {
              // All clients increment one number, so a transaction may give up.
              case .maxRetries: break
              case .unavailable where transport == .realtime: state.tally.uncertain += 1
              default:
                let reason = error.map { "\($0)" } ?? "without an error"
                state.problems.append("a transaction failed: \(reason)")
              }
            }
          }
        })
      return
    }
    var changes: [String: Any] = [
      "made/\(name)/w\(number)": ServerValue.increment(1), "last/\(name)": number,
    ]
    switch what {
    case 1: changes["items/\(item)"] = NSNull()
    case 2: changes["items/\(item)/deep/\(text.count)"] = text
    default: changes["items/\(item)"] = ["text": text, "by": name]
    }
    root.updateChildValues(changes) { [self] error, _ in
      finished { state in
        state.tally.written += 1
        if let error { state.problems.append("write \(number) failed: \(error)") }
      }
    }
  }

  private func finished(_ change: (inout State) -> Void) {
    let waiting = state.withLock { state in
      change(&state)
      state.outstanding -= 1
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
        state.problems.append("\(child.key) differs from its events")
      }
    }
  }

  private func checkProgress(_ snapshot: DataSnapshot) {
    guard let numbers = snapshot.value as? [String: Int] else { return }
    state.withLock { state in
      state.events += 1
      for (name, number) in numbers {
        let largest = state.lastSeen[name] ?? 0
        // A client shows its own outstanding writes whatever the server has.
        let repeated = transport == .line || name == self.name ? 0 : Self.outstandingMax - 1
        if number + repeated < largest {
          state.problems.append("write \(number) of \(name) was seen after \(largest)")
        }
        state.lastSeen[name] = max(largest, number)
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
