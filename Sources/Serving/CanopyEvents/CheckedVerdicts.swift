internal import CanopyEngine
internal import CanopyTree

/// The verdicts that a hub has asked for before it delivers the events of one commit, each asked for once. Use it on the
/// loop of the hub only.
final class CheckedVerdicts {
  /// The steps of a verdict that is asked for on the loop: about a tenth of a millisecond.
  static let stepsMax = 8 * 1024

  /// The commit of the verdicts.
  private var sequence: Int64 = 0
  private var verdicts = SharedVerdicts()

  /// Returns the verdict of a check if it is known, or takes few steps; else nil.
  func verdict(of check: ListenCheck, after change: CommittedChange) -> ReadVerdict? {
    begin(change)
    return verdicts.verdict(of: check, after: change, stepsMax: CheckedVerdicts.stepsMax)
  }

  /// Keeps the verdict of a check for the others with the same subject.
  func keep(_ verdict: ReadVerdict, of check: ListenCheck, after change: CommittedChange) {
    begin(change)
    verdicts.keep(verdict, of: check)
  }

  /// Forgets all verdicts, when the hub has no more events.
  func removeAll() {
    verdicts.removeAll()
  }

  private func begin(_ change: CommittedChange) {
    if change.sequence == sequence { return }
    sequence = change.sequence
    verdicts.removeAll()
  }
}
