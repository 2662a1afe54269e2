import CanopyClient

/// The numbers of a chaos client's writes and transactions, to compare with the server's tree.
struct ChaosTally: Codable, Sendable {
  /// The client's name.
  let name: String
  /// The number of acknowledged writes; their numbers are `1...written`.
  var written = 0
  /// The number of transactions that the server confirmed.
  var committed = 0
  /// The number of transactions that failed as unavailable. The server may have applied them.
  var uncertain = 0

  init(name: String) {
    self.name = name
  }

  /// Returns the differences between the numbers of all clients and the server's tree, a sentence each.
  ///
  /// Over the line protocol each write and each transaction was applied once. Over the realtime protocol each write was
  /// applied at least once, a cut repeats no more writes than were outstanding, and no transaction was applied twice.
  ///
  /// - Parameters:
  ///   - truth: the node `/chaos` of the server.
  ///   - cuts: how many connections were cut.
  static func problems(
    of tallies: [ChaosTally], in truth: DataSnapshot, cuts: Int, over transport: ChaosTransport
  ) -> [String] {
    var problems: [String] = []
    var repetitions = 0
    for tally in tallies {
      let made = truth.childSnapshot(forPath: "made/\(tally.name)")
      if made.childrenCount != UInt(tally.written) {
        problems.append(
          "\(tally.written) writes of \(tally.name) were acknowledged, \(made.childrenCount) were made"
        )
      }
      for write in made.childSnapshots {
        repetitions += (write.value as? Int ?? 0) - 1
      }
    }
    let repetitionsMax = transport == .line ? 0 : cuts * ChaosWorker.outstandingMax
    if !(0...repetitionsMax).contains(repetitions) {
      problems.append("\(repetitions) writes were repeated, at most \(repetitionsMax) may be")
    }
    let committed = tallies.reduce(0) { $0 + $1.committed }
    let uncertain = tallies.reduce(0) { $0 + $1.uncertain }
    let shared = truth.childSnapshot(forPath: "shared").value as? Int ?? 0
    if !(committed...(committed + uncertain)).contains(shared) {
      problems.append(
        "\(committed) transactions were confirmed, \(uncertain) are uncertain, \(shared) were made")
    }
    return problems
  }
}
