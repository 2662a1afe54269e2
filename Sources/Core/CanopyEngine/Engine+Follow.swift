internal import CanopyTree
internal import DequeModule
internal import Logging
internal import Synchronization

/// Commits that other engines have appended to the same journal.
///
/// The engine reads them by number when the journal says that there are some, and at least once in
/// `Configuration.followAfter`. So a lost message of the journal delays the node by at most that time. The engine's
/// thread adopts them before it decides its next batch.
extension Engine {
  /// Reads and adopts the commits of other engines until the task is cancelled.
  func follow(_ journal: any SharedJournal) async {
    var pace = LogPace()
    var isFailing = false
    while !Task.isCancelled {
      do {
        try await catchUp(with: journal)
        if isFailing { logger.notice("the commits of other nodes can be read again") }
        isFailing = false
        state.withLock { $0.isCutOff = false }
      } catch {
        isFailing = true
        state.withLock { $0.isCutOff = true }
        if let omitted = pace.admit(at: watch.now) {
          logger.error(
            "the commits of other nodes cannot be read; it is tried again",
            metadata: ["error": "\(error)", "suppressed": "\(omitted)"])
        }
        // A cancelled wait ends as well.
        try? await clock.sleep(for: configuration.followAfter)
      }
      await waitForCommits(in: journal)
    }
  }

  /// Waits until there may be new commits, or a reader asks for one.
  private func waitForCommits(in journal: any SharedJournal) async {
    await withTaskGroup(of: Void.self) { group in
      let sequence = snapshot.sequence
      group.addTask { [configuration] in
        await journal.waitForCommits(after: sequence, atMost: configuration.followAfter)
      }
      group.addTask { await self.followRequest.wait() }
      await group.next()
      group.cancelAll()
    }
  }

  /// Reads and adopts commits until there are no more.
  private func catchUp(with journal: any SharedJournal) async throws {
    while !Task.isCancelled {
      let content: FollowedPage.Content
      do {
        let commits = try await read(from: journal)
        if commits.isEmpty { return }
        content = .commits(commits)
      } catch JournalError.forgotten {
        content = .reloaded(try await reload(from: journal))
      }
      let isAccepted = await withCheckedContinuation { continuation in
        hand(FollowedPage(content: content, continuation: continuation))
      }
      if !isAccepted { return }
    }
  }

  /// Loads the tree again, because the journal no longer has the next commits.
  func reload(from journal: any SharedJournal) async throws -> JournalState {
    let plan = state.withLock { $0.current.indexPlan }
    logger.notice("this node is behind the commits that the journal keeps; it loads the tree")
    return try await journal.load(keeping: plan)
  }

  /// Reads the next commits that the engine lacks.
  func read(from journal: any SharedJournal) async throws -> [Commit] {
    try await journal.commits(
      after: snapshot.sequence, bytesMax: Engine.followedBytesMax)
  }

  /// Hands a page to the engine's thread, which resumes its continuation.
  private func hand(_ page: FollowedPage) {
    let (isAccepted, wakeUp) = state.withLock {
      state -> (Bool, CheckedContinuation<Void, Never>?) in
      if state.hasEnded { return (false, nil) }
      state.followed.append(page)
      return (true, state.wakeUp.take())
    }
    wakeUp?.resume()
    if !isAccepted { page.continuation.resume(returning: false) }
  }

  /// Refuses all pages from now on, because the engine's thread takes no more.
  func endFollowing() {
    let pages = state.withLock { state in
      state.hasEnded = true
      defer { state.followed = [] }
      return state.followed
    }
    for page in pages { page.continuation.resume(returning: false) }
    followRequest.make()
  }

  /// Adopts a page between two batches.
  func adopt(_ page: FollowedPage, _ writer: WriterState) {
    switch page.content {
    case .commits(let commits): adopt(commits, writer)
    case .reloaded(let loaded): adopt(loaded, writer)
    }
    page.continuation.resume(returning: true)
  }

  /// Adopts the commits of other engines: applies those that the tree lacks, and notifies listeners. A mark is in force
  /// before the commits after it are adopted.
  func adopt(_ found: [Commit], _ writer: WriterState) {
    assertOnThread()
    let start = watch.now
    var left = found[...]
    while let mark = adoptUpToMark(&left, writer) {
      putInForce(mark, at: snapshot.sequence)
    }
    endSequenceWaits()
    watch.note("following", since: start, at: found.first?.assignments.first?.location)
  }

  /// Adopts commits up to the first one with a mark.
  ///
  /// - Parameter left: the commits. This removes the adopted ones.
  /// - Returns: the mark; nil if no commits are left.
  private func adoptUpToMark(
    _ left: inout ArraySlice<Commit>, _ writer: WriterState
  ) -> CommitMark? {
    let (before, first) = state.withLock { ($0.current, $0.currentSequence) }
    var (tree, sequence) = (before, first)
    var changes: [Change] = []
    var adopted: [Commit] = []
    var mark: CommitMark?
    while mark == nil, let commit = left.popFirst() {
      if commit.sequence <= sequence { continue }
      guard commit.sequence == sequence + 1 else {
        left = []
        break
      }
      let views = listeners.views(concernedBy: commit.assignments)
      // The old root is kept only if it is needed: a second reference makes `apply` copy the pages on the path.
      let root = views.isEmpty && authorizations.isIdle ? nil : tree.root
      tree.apply(commit.assignments)
      sequence = commit.sequence
      if let root {
        changes.append(Change(commit: commit, views: views, before: root, after: tree.root))
      }
      adopted.append(commit)
      writer.note(commit)
      mark = commit.note?.mark
    }
    guard sequence > first else { return mark }
    notifyCommitObservers(adopted, from: before.root, to: tree.root)
    replaceTree(by: tree, at: sequence, notifyingOf: changes) {
      $0.indexing?.missed += adopted.map(\.assignments)
    }
    if RetiredTrees.areLarge(adopted.map(\.assignments), in: before.root) {
      RetiredTrees.free(before)
    }
    return mark
  }

  /// Adopts a tree that was loaded again. Listeners receive it as one commit.
  func adopt(_ loaded: JournalState, _ writer: WriterState) {
    assertOnThread()
    let snapshot = snapshot
    guard loaded.sequence > snapshot.sequence else { return }
    let commit = Commit(
      sequence: loaded.sequence, time: loaded.lastTime ?? 0,
      assignments: [Assignment(Path.root, loaded.tree.root)])
    writer.note(commit)
    writer.clientWrites = ClientWrites(loaded.clientWrites)
    let change = Change(
      commit: commit, views: listeners.views(concernedBy: commit.assignments),
      before: snapshot.root, after: loaded.tree.root)
    notifyCommitObservers([commit], from: snapshot.root, to: loaded.tree.root)
    replaceTree(by: loaded.tree, at: loaded.sequence, notifyingOf: [change]) { state in
      // `keepIndexes` begins again.
      state.indexing = nil
      state.checkpointSequence = max(state.checkpointSequence, loaded.checkpoint)
    }
    for handler in state.withLock({ $0.markHandlers }) { handler(.reloaded(loaded.rules)) }
    endSequenceWaits()
  }

  /// Publishes a tree with commits of other engines, and notifies listeners.
  private func replaceTree(
    by tree: Tree, at sequence: Int64, notifyingOf changes: [Change],
    _ change: (inout State) -> Void
  ) {
    let checkpointWait = state.withLock { state in
      state.current = tree
      state.currentSequence = sequence
      change(&state)
      return state.endedCheckpointWait()
    }
    checkpointWait?.resume()
    notify(changes)
  }
}

/// Commits of other engines on their way to the engine's thread.
struct FollowedPage {
  enum Content {
    case commits([Commit])
    case reloaded(JournalState)
  }

  let content: Content
  /// Resumed with true when the page is adopted, and with false when the engine has ended.
  let continuation: CheckedContinuation<Bool, Never>
}

extension WriterState {
  /// Notes the keys, the time and the origin of a commit of another engine.
  fileprivate func note(_ commit: Commit) {
    let keyTime = commit.note?.keyTime ?? commit.keyTime ?? commit.time
    pushIDs.advance(past: max(commit.time, keyTime))
    latestTime = max(latestTime, commit.time)
    if let write = commit.clientWrite { clientWrites.note(write) }
  }
}
