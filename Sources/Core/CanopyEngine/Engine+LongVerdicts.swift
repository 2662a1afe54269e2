internal import CanopySystem
internal import CanopyTree
internal import DequeModule
internal import Synchronization

/// The cases whose verdicts take many steps. Only the engine's thread uses it.
///
/// Each owner of the work has a queue of its own, and the owners take turns. So a client whose listeners all get other
/// authorizations does not delay the verdicts of the others. A case may be in the queues of several owners. It is
/// skipped in the later ones if it has its verdict by then.
final class LongAuthorizations: Sendable {
  private struct Line {
    var order: Deque<ListenAuthorizations.CaseID> = []
    /// The cases in `order`, each of which is there once.
    var cases: Set<ListenAuthorizations.CaseID> = []

    mutating func add(_ ids: [ListenAuthorizations.CaseID]) {
      for id in ids where cases.insert(id).inserted { order.append(id) }
    }

    mutating func take(_ countMax: Int) -> [ListenAuthorizations.CaseID] {
      let ids = Array(order.prefix(countMax))
      order.removeFirst(ids.count)
      cases.subtract(ids)
      return ids
    }
  }

  private struct State {
    /// The cases of each owner. No line is empty.
    var lines: [Reauthorization.Owner: Line] = [:]
    /// The owners with a line, in the order of their turns.
    var order: Deque<Reauthorization.Owner> = []
    /// Whether a verdict is asked for.
    var isUnderWay = false
  }

  private let state = Mutex(State())

  /// Adds cases. Returns whether the caller must take the first of them.
  func add(_ ids: [ListenAuthorizations.CaseID], of owner: Reauthorization.Owner) -> Bool {
    guard !ids.isEmpty else { return false }
    return state.withLock { state in
      if state.lines[owner] == nil { state.order.append(owner) }
      state.lines[owner, default: Line()].add(ids)
      defer { state.isUnderWay = true }
      return !state.isUnderWay
    }
  }

  /// Removes and returns the next cases, with their owner. After nil, none is under way.
  func takeNext() -> (owner: Reauthorization.Owner, ids: [ListenAuthorizations.CaseID])? {
    state.withLock { state in
      guard let owner = state.order.popFirst(), var line = state.lines.removeValue(forKey: owner)
      else {
        state.isUnderWay = false
        return nil
      }
      let ids = line.take(LongAuthorizations.takenMax)
      if !line.order.isEmpty {
        state.lines[owner] = line
        state.order.append(owner)
      }
      return (owner, ids)
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
  func authorizeBeside(_ ids: [ListenAuthorizations.CaseID], of owner: Reauthorization.Owner) {
    assertOnThread()
    if longAuthorizations.add(ids, of: owner) { askForNextLongVerdict() }
  }

  private func askForNextLongVerdict() {
    assertOnThread()
    while let (owner, ids) = longAuthorizations.takeNext() {
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
            if !take(verdict, of: found.id, at: time, isCurrent: isCurrent, seen: seen) {
              _ = longAuthorizations.add([found.id], of: owner)
            }
          }
          endNotifying()
          askForNextLongVerdict()
        }
      }
      if !WorkerThread.start(niceness: 5, ask) { ask() }
      return
    }
  }

  /// Gives a case its verdict. Returns false if it may have another one by now.
  ///
  /// A denial counts although the tree has changed: the case was denied after a commit since which it waits.
  private func take(
    _ verdict: ReadVerdict, of id: ListenAuthorizations.CaseID, at time: Int64, isCurrent: Bool,
    seen: [(path: Path, node: Node)]
  ) -> Bool {
    let snapshot = snapshot
    guard isCurrent,
      !verdict.isAllowed
        || seen.allSatisfy({ snapshot.root.at($0.path).isUnchanged(from: $0.node) })
    else { return false }
    end(
      authorizations.setVerdict(verdict, of: id, at: time, after: snapshot.sequence, isLast: true))
    return true
  }
}
