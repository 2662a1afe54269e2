internal import CanopySystem
internal import CanopyTree
internal import DequeModule
internal import Synchronization

/// The cases whose verdicts take many steps, in the order in which they are asked for. Only the engine's thread uses it.
final class LongAuthorizations: Sendable {
  private struct State {
    var order: Deque<ListenAuthorizations.CaseID> = []
    /// The cases in `order`, each of which is there once.
    var cases: Set<ListenAuthorizations.CaseID> = []
    /// Whether a verdict is asked for.
    var isUnderWay = false
  }

  private let state = Mutex(State())

  /// Adds cases. Returns whether the caller must take the first of them.
  func add(_ ids: [ListenAuthorizations.CaseID]) -> Bool {
    state.withLock { state in
      for id in ids where state.cases.insert(id).inserted { state.order.append(id) }
      guard !state.isUnderWay, !state.order.isEmpty else { return false }
      state.isUnderWay = true
      return true
    }
  }

  /// Removes and returns the next cases. After none, none is under way.
  func takeNext() -> [ListenAuthorizations.CaseID] {
    state.withLock { state in
      let ids = Array(state.order.prefix(LongAuthorizations.takenMax))
      state.order.removeFirst(ids.count)
      state.cases.subtract(ids)
      state.isUnderWay = !ids.isEmpty
      return ids
    }
  }

  /// The cases among which those are looked for that have the same verdict.
  private static let takenMax = 64
}

/// Verdicts that take many steps, which are asked for beside the engine's thread.
///
/// Until a case has its verdict it waits, and event loops check it. The verdict counts if nothing that it depends on has
/// changed meanwhile. Otherwise it is asked for again. So while others write what the verdict depends on, it comes late,
/// and no write waits for it.
extension Engine {
  /// Asks for the verdicts of cases beside the engine's thread, one after the other. The queries of one caller share a
  /// verdict that does not depend on the query.
  func authorizeBeside(_ ids: [ListenAuthorizations.CaseID]) {
    assertOnThread()
    if longAuthorizations.add(ids) { askForNextLongVerdict() }
  }

  private func askForNextLongVerdict() {
    assertOnThread()
    while true {
      let ids = longAuthorizations.takeNext()
      if ids.isEmpty { return }
      let cases = ids.compactMap { id in authorizations.waiting(id).map { (id: id, $0) } }
      guard let (first, otherChanges) = cases.first?.1 else { continue }
      let (root, time) = (snapshot.root, now())
      let ask = { @Sendable [self] in
        var verdicts = SharedVerdicts()
        let verdict = verdicts.verdict(of: first, root, time)
        // Not the root: its last reference is not to be released on the engine's thread.
        let seen = verdict.paths.map { ($0, root.at($0)) }
        let same = cases.enumerated().map { index, found in
          (id: found.id, isSame: index == 0 || verdicts.known(found.1.authorization) != nil)
        }
        // An engine that is stopping asks for no further verdict.
        _ = enqueueBarrier { [self] in
          for found in same {
            let isCurrent =
              found.isSame && authorizations.waiting(found.id)?.otherChanges == otherChanges
            take(verdict, of: found.id, at: time, isCurrent: isCurrent, seen: seen)
          }
          endNotifying()
          askForNextLongVerdict()
        }
      }
      if !WorkerThread.start(niceness: 5, ask) { ask() }
      return
    }
  }

  /// Gives a case its verdict, or asks for it again if it may be another one.
  ///
  /// A denial counts although the tree has changed: the case was denied after a commit since which it waits.
  private func take(
    _ verdict: ReadVerdict, of id: ListenAuthorizations.CaseID, at time: Int64, isCurrent: Bool,
    seen: [(path: Path, node: Node)]
  ) {
    let snapshot = snapshot
    guard isCurrent,
      !verdict.isAllowed
        || seen.allSatisfy({ snapshot.root.at($0.path).isUnchanged(from: $0.node) })
    else {
      _ = longAuthorizations.add([id])
      return
    }
    end(
      authorizations.setVerdict(verdict, of: id, at: time, after: snapshot.sequence, isLast: true))
  }
}
