/// The sums of the runs with one kind of fault.
struct Tally: Sendable {
  /// The number of operations that can fail.
  var points = 0
  /// The numbers of the operations that were tried.
  var tried: Set<Int> = []
  var runs = 0
  /// The runs in which an operation failed.
  var failing = 0
  var acknowledged = 0
  var lost = 0
  var torn = 0
  var doubled = 0
  var stuck = 0

  mutating func add(_ outcome: DiskRun.Outcome, at number: Int) {
    tried.insert(number)
    runs += 1
    if outcome.faults > 0 { failing += 1 }
    acknowledged += outcome.acknowledged
    lost += outcome.findings.lost.count
    torn += outcome.findings.torn.count
    doubled += outcome.findings.doubled.count
    stuck += outcome.findings.stuck.count
  }

  static let header =
    "| Fault | Operations | Tried | Runs | With the fault | Acknowledged | Lost | Torn | Wrongly acknowledged | Stuck |\n"
    + "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"

  func row(_ fault: DiskFault) -> String {
    let cells = [
      points, tried.count, runs, failing, acknowledged, lost, torn, doubled, stuck,
    ].map(String.init)
    return "| \(fault.rawValue) | \(cells.joined(separator: " | ")) |"
  }
}
