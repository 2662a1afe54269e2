internal import CanopyTree
internal import Logging
internal import Synchronization

/// Batches that lost the race for their numbers to another engine on the same journal.
///
/// The engine decides the whole batch again, on the tree with the commits of the winner. None of the requests has
/// completed, so no client sees the first decision.
///
/// An engine that has lost `lostRacesMax` races in a row asks the journal for the turn. While it has the turn, the
/// appends of other engines wait. So it adopts the commits that it missed, decides again, and cannot lose.
///
/// The journal gives turns in the order of the requests. So a batch loses at most `lostRacesMax` races, and then waits
/// for at most one turn of each other engine. A journal without turns gives no such bound.
extension Engine {
  /// The races that a batch may lose before the engine asks for the turn.
  static let lostRacesMax = 3

  /// The bytes of commits that are read at once.
  static let followedBytesMax = 256 * 1024

  /// Handles the failure of an append.
  ///
  /// - Parameter requests: the requests that were taken for the batch, decided or not.
  func recover(
    from error: any Error, _ batch: Batch, _ requests: [WriteQueue.Entry], _ writer: WriterState
  ) async {
    switch error {
    case JournalError.conflict(let missed):
      await decideAgain(batch, requests, after: missed, writer)
    case JournalError.forgotten: await decideAgain(batch, requests, after: [], writer)
    case JournalError.disconnectWritesTaken(let ids)
    where !writer.takenDisconnectWrites.isSuperset(of: ids):
      fail(batch, writer)
      writer.takenDisconnectWrites.formUnion(ids)
      repeatBatch(batch, requests, writer)
    default:
      writer.journalLog.noteFailure(of: batch, error, at: watch.now)
      await endTurn(writer)
      if isPlanted(.failureWithoutQuestion) {
        fail(batch, writer)
        return complete(batch, .journalFailed)
      }
      await resolveAppend(of: batch, requests, writer)
    }
    if writer.again == nil { await endRace(writer) }
  }

  /// Adopts the commits of the winner, and has the batch decided again.
  ///
  /// If the journal has no commits that the engine lacks, the batch fails: it would conflict for ever.
  func decideAgain(
    _ batch: Batch, _ requests: [WriteQueue.Entry], after found: [Commit], _ writer: WriterState
  ) async {
    fail(batch, writer)
    adopt(found, writer)
    if snapshot.sequence == batch.first { await adoptMissed(writer) }
    guard snapshot.sequence > batch.first else {
      writer.journalLog.noteFailure(
        of: batch, JournalError.conflict(missed: found), at: watch.now)
      return complete(batch, .journalFailed)
    }
    repeatBatch(batch, requests, writer)
    guard writer.lostRaces >= Engine.lostRacesMax else { return }
    await endTurn(writer)
    do {
      writer.hasTurn = try await shared?.takeTurn() ?? false
    } catch {
      logger.debug("the journal gave no turn", metadata: ["error": "\(error)"])
    }
    if writer.hasTurn { await adoptMissed(writer) }
  }

  /// Puts the requests of a failed batch into the next one.
  private func repeatBatch(
    _ batch: Batch, _ requests: [WriteQueue.Entry], _ writer: WriterState
  ) {
    for request in batch.requests { request.rollBack() }
    writer.again = requests
    writer.taken = []
    writer.repeats = batch.requests.count
    writer.lostRaces += 1
    state.withLock { state in
      state.races.lost += 1
      state.races.mostInARow = max(state.races.mostInARow, writer.lostRaces)
    }
  }

  /// Notes that a batch needs no further race.
  func endRace(_ writer: WriterState) async {
    await endTurn(writer)
    writer.lostRaces = 0
    writer.takenDisconnectWrites = []
  }

  private func endTurn(_ writer: WriterState) async {
    guard writer.hasTurn else { return }
    writer.hasTurn = false
    await shared?.endTurn()
  }

  /// Reads and adopts all commits that the engine lacks. Call on the engine's thread, between two batches.
  func adoptMissed(_ writer: WriterState) async {
    guard let shared else { return }
    do {
      while true {
        do {
          let missed = try await read(from: shared)
          if missed.isEmpty { return }
          adopt(missed, writer)
        } catch JournalError.forgotten {
          adopt(try await reload(from: shared), writer)
        }
      }
    } catch {
      // The next append fails with an error that says more.
      logger.debug("missed commits cannot be read", metadata: ["error": "\(error)"])
    }
  }

  /// The races that the engine has lost.
  public struct Races: Sendable, Equatable {
    /// The number of races.
    public var lost = 0
    /// The most races that one batch has lost.
    public var mostInARow = 0
  }

  /// Counters of the races for the next numbers of the journal that the engine has lost.
  public var races: Races { state.withLock { $0.races } }
}
