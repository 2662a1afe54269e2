import CanopyClient
import CanopyTree
import Foundation

/// A client that uses the client library as an application does.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class LibraryClient: @unchecked Sendable {
  let name: String
  private let history: History
  private let database: Database
  /// The texts that were written, in order.
  private(set) var written: [String] = []
  private var outstanding = 0
  /// The transactions that were committed.
  private(set) var transactions: Int64 = 0
  /// The increments that were made.
  private(set) var increments: Int64 = 0
  /// The last value of each observed location.
  private var observed: [Path: String] = [:]
  /// The texts that an observer has seen at each key, in order.
  private var sights: [String: [String]] = [:]
  private let paths: [Path]

  init(_ number: Int, _ network: Network, _ history: History, paths: [Path]) throws {
    name = "library-\(number)"
    self.history = history
    self.paths = paths
    var options = DatabaseOptions()
    options.environment = ClientEnvironment(
      now: Server.now, random: { Scheduler.shared.word() },
      schedule: { milliseconds, body in
        Scheduler.shared.after(milliseconds: milliseconds, body)
      })
    options.environment.connector = network
    options.logger = SimulationLogHandler.logger
    options.connectMilliseconds = 2_000
    options.keepaliveMilliseconds = 4_000
    database = try Database(url: "canopy://server:7070", options: options)
  }

  /// Observes the locations.
  func observe() {
    for path in paths {
      _ = database.reference(withPath: path.text).observe(.value) { [self] snapshot in
        let text = Canonical.text(snapshot.value)
        Scheduler.shared.note("\(name) observes \(path) \(text.prefix(200))")
        observed[path] = text
        note(snapshot.value, below: path.text)
      }
    }
  }

  private func note(_ value: Any?, below path: String) {
    guard let children = value as? [String: Any] else { return }
    for (key, child) in children {
      guard let text = child as? String, sights["\(path)/\(key)"]?.last != text else { continue }
      sights["\(path)/\(key)", default: []].append(text)
    }
  }

  /// Whether every operation has ended and every observer has the last state.
  var isDone: Bool { outstanding == 0 && paths.allSatisfy { observed[$0] == truth(at: $0) } }

  private func truth(at path: Path) -> String { Canonical.text(history.root.at(path)) }

  /// The state for a report.
  var state: String {
    let differing = paths.filter { observed[$0] != truth(at: $0) }.map {
      "\($0): \((observed[$0] ?? "nothing").prefix(300)) instead of \(truth(at: $0).prefix(300))"
    }
    return "\(name): \(outstanding) outstanding, \(differing)"
  }

  /// Replaces a value by a text.
  func write(_ path: Path, _ text: String) {
    written.append(text)
    outstanding += 1
    Scheduler.shared.note("\(name) sets \(path) to \(text)")
    database.reference(withPath: path.text).setValue(text) { [self] error, _ in
      ended("the write of \(text)", error)
    }
  }

  private func ended(_ what: String, _ error: (any Error)?) {
    outstanding -= 1
    Scheduler.shared.note("\(name): \(what) has ended: \(error.map { "\($0)" } ?? "made")")
    if let error { history.fail("\(name): \(what) failed: \(error)") }
  }

  /// Adds one to a number.
  func increment(_ path: Path) {
    increments += 1
    outstanding += 1
    database.reference(withPath: path.text).setValue(ServerValue.increment(NSNumber(value: 1))) {
      [self] error, _ in
      ended("an increment", error)
    }
  }

  /// Adds one to a number by a transaction.
  func transact(_ path: Path) {
    outstanding += 1
    database.reference(withPath: path.text).runTransactionBlock { data in
      data.value = (data.value as? Int ?? 0) + 1
      return .success(withValue: data)
    } andCompletionBlock: { [self] error, isCommitted, _ in
      outstanding -= 1
      if isCommitted { transactions += 1 }
      Scheduler.shared.note(
        "\(name): a transaction has ended: \(isCommitted) \(error.map { "\($0)" } ?? "")")
    }
  }

  func goOffline() { database.goOffline() }
  func goOnline() { database.goOnline() }

  /// Checks what the client has seen against the whole history.
  func checkAll() {
    var last: Int64 = 0
    for text in written {
      let made = history.sequences(of: text)
      guard let sequence = made.first, made.count == 1 else {
        history.fail("\(name)'s write of \(text) was made \(made.count) times")
        continue
      }
      if sequence < last {
        history.fail("\(name)'s write of \(text) was made before an earlier one")
      }
      last = sequence
    }
    for (place, texts) in sights.sorted(by: { $0.key < $1.key }) {
      var last: Int64 = 0
      for text in texts {
        guard let sequence = history.sequences(of: text).first else { continue }
        if sequence < last { history.fail("\(name) has seen \(place) go back to \(text)") }
        last = max(last, sequence)
      }
    }
  }
}

/// The text of a value, equal for equal values, of the library or of a tree.
private enum Canonical {
  static func text(_ value: Any?) -> String {
    switch value {
    case let children as [String: Any]:
      let members = children.sorted { $0.key < $1.key }.map { "\($0.key):\(text($0.value))" }
      return "{\(members.joined(separator: ","))}"
    case let text as String: return text
    case let number as Int: return "\(number)"
    case let number as Double: return "\(Int64(number))"
    case nil, is NSNull: return "null"
    default: return "?"
    }
  }

  static func text(_ node: Node) -> String {
    guard node.isBranch else {
      return node.stringValue ?? node.integerValue.map { "\($0)" } ?? (node.isAbsent ? "null" : "?")
    }
    var members: [(String, String)] = []
    node.forEachChild { key, child in
      members.append((key.text, text(child)))
      return true
    }
    let texts = members.sorted { $0.0 < $1.0 }.map { "\($0.0):\($0.1)" }
    return "{\(texts.joined(separator: ","))}"
  }
}
