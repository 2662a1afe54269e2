import CanopyEngine
import CanopyTesting
import Foundation

@testable import CanopySQLite

/// One run: a server on a disk that has one fault, clients, a loss of power or a stop, and the checks.
struct DiskRun: Sendable {
  /// The fault; nil for a sound disk.
  var fault: DiskFault?
  /// The number of the failing operation, from 0, among those that the fault concerns.
  var number = 0
  var seed: UInt64
  /// Plants a defect in the settings of the store.
  var configure: @Sendable (inout SQLiteStore.Configuration) -> Void = { _ in }
  /// Plants a defect between the engine and the store.
  var journal: @Sendable (SQLiteStore) -> any Journal = { $0 }
  /// Plants a defect in the folder before it is checked.
  var change: @Sendable (DiskServer) async throws -> Void = { _ in }
  /// Plants a defect of the files before they are checked.
  var damage: @Sendable (TemporaryFolder) throws -> Void = { _ in }
  /// Plants a defect of the disk itself.
  var ignoresSync = false
  /// Always ends with a loss of power in which all unsynchronized writes are lost.
  var losesAll = false
  /// Whether the run without a fault also replaces the rules, and makes a backup in each round, as those with faults of
  /// own files do.
  var countsFiles = false

  /// The result of a run.
  struct Outcome: Sendable {
    var findings: Findings
    /// The number of operations that failed as planned.
    var faults: Int
    /// The operation and the file that failed first.
    var firstFault: String
    /// The number of acknowledged writes.
    var acknowledged: Int
    /// The number of operations that each kind of fault concerns.
    var counts: [DiskFault: Int]
  }

  private static let startsMax = 4

  func run() async throws -> Outcome {
    var random = SeededGenerator(seed: seed)
    let folder = try TemporaryFolder()
    let disk = try Disk(folder)
    let keepsFiles = fault?.calls.isEmpty == false || countsFiles
    let backups = folder.file("backups")
    try FileManager.default.createDirectory(atPath: backups, withIntermediateDirectories: true)
    let clock = ManualClock()
    if let fault { disk.plan(fault, at: number, seed: random.next()) }
    if ignoresSync { disk.ignoreSync() }
    var findings = Findings()
    let endsByStop = !losesAll && random.oneIn(4)
    var load: (ledger: Ledger, number: Int) = (Ledger(), 0)
    for start in 1...Self.startsMax where !disk.hasEnded {
      let server: DiskServer
      do {
        server = try await DiskServer.start(
          folder.path, clock: clock, seed: random.next(), configure, journal: journal)
      } catch StoreError.damaged where load.ledger.acknowledged == 0 {
        // The disk has failed during the first start. The server refuses the folder, which has no data.
        break
      } catch {
        if start == Self.startsMax { findings.stuck.append("the server does not start: \(error)") }
        disk.heal()
        continue
      }
      let stopsAtFault = fault == .syncDroppedAtStop && disk.faults == 0
      do {
        try await server.serve { port in
          var work = Workload(
            server, port, disk, backups: backups, endsAtRefusal: stopsAtFault,
            keepsFiles: keepsFiles, ledger: load.ledger, number: load.number)
          try await work.run()
          load = (work.ledger, work.number)
          findings.add(work.findings)
        }
      } catch {
        findings.stuck.append("the server ended: \(error)")
      }
      let goesOn = stopsAtFault && disk.faults > 0
      if !endsByStop, !goesOn { disk.end() }
      do { try await server.stop() } catch {
        if disk.faults == 0, !disk.hasEnded { findings.stuck.append("the stop failed: \(error)") }
      }
      if !goesOn { break }
      disk.heal()
    }
    let ledger = load.ledger
    disk.end()
    for state in losesAll ? [.allLost] : PowerLoss.allCases {
      let image = try disk.image(state, seed: random.next())
      try damage(image)
      var checks = AfterLoss(ledger: ledger, findings: Findings())
      try await checks.check(image, clock: clock, change)
      findings.add(checks.findings)
    }
    return Outcome(
      findings: findings, faults: disk.faults, firstFault: disk.firstFault,
      acknowledged: ledger.acknowledged,
      counts: DiskFault.allCases.reduce(into: [:]) { $0[$1] = disk.count($1) })
  }
}
