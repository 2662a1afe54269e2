import ArgumentParser
import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopySocial
import CanopySQLite
import CanopyTree
import CanopyWire
import Foundation

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Make a new data folder of a backup, up to its last commit or an earlier one.",
    discussion: """
      The folder gets its name when it is complete and verified. Nothing else is changed. \
      A damaged secret of the backup is left out, and the command says so; the next start makes a new one. \
      An earlier point can be reached if the backup has the commits after it, which a server keeps for a time \
      (--retained-commits, --retained-seconds, --retained-bytes): the command undoes them. With an older backup of the \
      same server, it makes the commits between the two backups again instead. The accounts, the sessions, the rules and \
      the on-disconnect writes are always those of the newer backup; accounts that were opened after an earlier point, \
      and so have no profile there, are removed. New commits get new numbers, so that no client takes them for commits \
      that are lost.
      """)

  @Argument(help: "The file of the backup.") var file: String
  @OptionGroup var folder: FolderOption
  @Option(help: "The number of the last commit to keep.") var upToSequence: Int64?
  @Option(
    help:
      "The time up to which commits are kept: 2026-01-31T12:00:00Z, or milliseconds since 1970.",
    transform: { try Moment($0) })
  var upToTime: Moment?
  @Option(help: "An older backup, on whose tree the commits are made again.") var older: String?
  @Option(
    help: "The namespace with the earlier point (default for a number, all for a time).")
  var namespace: NamespaceName?

  func validate() throws {
    guard upToSequence == nil || upToTime == nil else {
      throw ValidationError("name a number or a time, not both")
    }
    guard upToSequence != nil || upToTime != nil || (older == nil && namespace == nil) else {
      throw ValidationError(
        "--older and --namespace go with --up-to-sequence or --up-to-time; name one of them")
    }
  }

  func run() async throws {
    try await Failure.explaining {
      let folder = try folder.folder()
      let point: RestorePoint =
        upToSequence.map { .sequence($0) } ?? upToTime.map { .time($0.milliseconds) } ?? .last
      let only = namespace ?? (upToSequence == nil ? nil : .default)
      let restoring = Restoring(
        BackupFile(file), older: older.map { BackupFile($0) }, now: Composition.now
      ) {
        only == nil || $0 == only ? point : .last
      }
      let works = restoring.workFolders(
        for: folder, number: Int(ProcessInfo.processInfo.processIdentifier))
      let (outcomes, lost) = try await Interruption.removing(works) {
        var lost: [String] = []
        let outcomes = try await restoring.run(to: folder, through: works) {
          Output.progress("unpacked \(Output.megabytes($0)) of \(Output.megabytes($1))")
        } check: { unpacked, outcomes in
          Output.progress("", isDone: true)
          if let only, !outcomes.contains(where: { $0.namespace == only }) {
            throw Failure("\(file) has no namespace \(only); choose one that it has")
          }
          if let outcome = outcomes.first(where: { $0.namespace == .default && $0.isEarlier }) {
            try await removeAccounts(openedAfter: outcome.time, in: unpacked)
          }
          // The rest of the backup is whole, and the next start makes new secrets.
          lost = await SmallFiles.removeDamagedSecrets(in: unpacked)
          let check = FolderCheck(NamespaceFolders(unpacked))
          let problems = try await check.run().map { $0.naming(file, for: unpacked) }
          if let problem = problems.first(where: { $0.kind == .damage }) {
            throw Failure("the restored folder would be damaged: \(problem.text)")
          }
          // The server had them too, or the point is in the middle of a sign-up, so they are no reason to lose the
          // backup.
          let origin =
            outcomes.contains { $0.isEarlier }
            ? "a problem remains, which the backup has or the chosen point causes"
            : "a problem of the backup remains"
          for problem in problems { Output.note("\(origin): \(problem.text)") }
        } willName: {
          Interruption.complete()
        }
        return (outcomes, lost)
      }
      for line in lost { try Output.line(line) }
      if outcomes.contains(where: \.hadFutureLogin) {
        try Output.line(
          "corrected: the latest login of a deleted account was in the future, and has the present time now"
        )
      }
      for outcome in outcomes {
        try Output.line(
          "namespace \(outcome.namespace): restored up to commit \(outcome.sequence)")
      }
    }
  }

  /// Removes the accounts that were opened after the restored point and have no profile there.
  ///
  /// An earlier account without a profile stays: an import or a write of the administrator may have removed its profile.
  /// So does a later one that has a profile, because the clock was ahead when it was opened.
  private func removeAccounts(openedAfter time: Int64, in folder: String) async throws {
    let store = try SQLiteStore(folder: folder)
    let result: Result<Int, any Error>
    do {
      let root = try await store.tree().root
      var (removed, after) = (0, String?.none)
      while true {
        let accounts = try await store.accounts(after: after, limit: 1_000)
        guard let last = accounts.last else { break }
        after = last.emailNormalized
        for account in accounts
        where account.createdAt > time && FolderCheck.lacksProfile(account, in: root) {
          _ = try await store.delete(uid: account.uid, at: Composition.now())
          removed += 1
        }
      }
      result = .success(removed)
    } catch { result = .failure(error) }
    try store.close()
    let removed = try result.get()
    if removed > 0 {
      Output.note(
        removed == 1
          ? "1 account is removed, because it was opened later"
          : "\(removed) accounts are removed, because they were opened later")
    }
  }
}

/// A time as an argument of a command.
struct Moment {
  /// Milliseconds since 1970.
  let milliseconds: Int64

  /// The least number that is taken for milliseconds. It is of the year 1973. As a number of seconds it is of the year 5138.
  private static let millisecondsMin: Int64 = 100_000_000_000

  /// Reads milliseconds since 1970, or a text such as `2026-01-31T12:00:00Z`.
  ///
  /// - Throws: `ValidationError` for another text, for a date that does not exist, and for a number that must be in seconds.
  init(_ argument: String) throws {
    if let number = Int64(argument) {
      guard number >= Self.millisecondsMin else {
        throw ValidationError(
          "\(argument) milliseconds since 1970 are before any commit: a time is in milliseconds, not in seconds"
        )
      }
      milliseconds = number
      return
    }
    for hasFraction in [false, true] {
      let style = Date.ISO8601FormatStyle(includingFractionalSeconds: hasFraction)
      guard Moment.endsWithZone(argument), let date = try? style.parse(argument) else { continue }
      guard Moment.exists(argument) else {
        throw ValidationError("this date or time of day does not exist; name another one")
      }
      milliseconds = Int64((date.timeIntervalSince1970 * 1_000).rounded())
      return
    }
    throw ValidationError("write a time as 2026-01-31T12:00:00Z, or as milliseconds since 1970")
  }

  /// Whether a text has a time zone after the time of day, and nothing after the zone. The parser ignores the rest of a text.
  private static func endsWithZone(_ text: String) -> Bool {
    let zone = text.utf8.dropFirst("2026-01-31T12:00:00".utf8.count).drop {
      $0 == UInt8(ascii: ".") || isDigit($0)
    }
    if zone.elementsEqual("Z".utf8) { return true }
    guard let sign = zone.first, [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(sign) else {
      return false
    }
    let digits = zone.dropFirst().filter { $0 != UInt8(ascii: ":") }
    return [2, 4].contains(digits.count) && digits.allSatisfy(isDigit)
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
  }

  /// Whether the date and the time of day in a text exist. The parser takes February 30 for March 2.
  private static func exists(_ text: String) -> Bool {
    let numbers = text.split { !("0"..."9").contains($0) }.prefix(6).compactMap { Int($0) }
    guard numbers.count == 6 else { return false }
    return DateComponents(
      calendar: Calendar(identifier: .gregorian), timeZone: .gmt, year: numbers[0],
      month: numbers[1], day: numbers[2], hour: numbers[3], minute: numbers[4], second: numbers[5]
    ).isValidDate
  }
}
