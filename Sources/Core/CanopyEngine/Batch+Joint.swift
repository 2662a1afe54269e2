internal import CanopyTree

/// Several writes that become one commit, such as the on-disconnect writes of a connection.
extension Batch {
  /// Makes the first of some writes in one commit: as many as fit in it, at least one.
  ///
  /// Each write is resolved, authorized and applied on the tree after the writes before it, all at one time. A refused
  /// write leaves no trace, and the commit removes it from the on-disconnect writes too, so that no later process
  /// decides it again. The commit has the result of all others. If all are refused, there is no commit.
  ///
  /// - Returns: the number of writes that were made or refused, the errors of the refused ones, and the failure that left
  ///   the others, if there was one.
  mutating func makeTogether(_ decisions: ArraySlice<Decision<Void>>) -> WritesProgress {
    let (before, time, start) = (tree, writer.now(), writer.threadTime())
    // One by one, writes that cannot be made are refused with the reason.
    guard decisions.count > 1, !isRefusing, time < PushIDGenerator.timeMax else {
      return makeSingly(decisions)
    }
    var joint = JointWrite()
    var errors: [Int: any Error] = [:]
    for (index, decision) in zip(decisions.indices, decisions) {
      let entries = decision.write.map { before.indexPlan.entriesChanged(by: $0) } ?? 0
      guard joint.hasRoom(for: entries) else {
        // Applied twice, it would take too long.
        if joint.count == 0 { return makeSingly(decisions.prefix(1)) }
        break
      }
      do { try apply(decision, entries, at: time, to: &joint) } catch { errors[index] = error }
      joint.count += 1
      if let write = decision.write { joint.prepare(write) }
      if let id = decision.completedDisconnectWrite, !writer.takenDisconnectWrites.contains(id) {
        joint.completed.append(id)
      }
      if joint.isFull || writer.threadTime() - start >= Engine.jointTimeMax { break }
    }
    let assignments = joint.assignments(in: tree.root)
    // Applied again from the start, so that the commit is what a journal applies.
    tree = before
    guard !assignments.isEmpty else { return WritesProgress(count: joint.count, errors: errors) }
    // A later write may have changed a large value, whose text was made before.
    guard joint.isPrepared(assignments) else {
      return makeSingly(decisions.prefix(joint.count))
    }
    do {
      try commit(assignments, of: joint.prepared, at: time, completing: joint.completed)
    } catch {
      // Makes the writes singly, so that only those at fault are refused.
      return makeSingly(decisions.prefix(joint.count))
    }
    return WritesProgress(count: joint.count, errors: errors)
  }

  /// Makes each write in a commit of its own.
  ///
  /// A wrong clock is no fault of a write. It ends the work, so that the write and those after it are made later.
  ///
  /// The time is bounded as that of one commit. The caller tries the writes that are left together again.
  private mutating func makeSingly(_ decisions: ArraySlice<Decision<Void>>) -> WritesProgress {
    var progress = WritesProgress()
    let start = writer.threadTime()
    for (index, decision) in zip(decisions.indices, decisions) {
      do {
        try make(decision, of: propose())
      } catch EngineError.wrongTime {
        progress.failure = .wrongTime
        return progress
      } catch {
        progress.errors[index] = error
      }
      progress.count += 1
      if writer.threadTime() - start >= Engine.jointTimeMax { break }
    }
    return progress
  }

  /// Resolves, authorizes and applies a write of a commit.
  ///
  /// - Throws: `EngineError.denied` and `.commitTooLarge`, and the error of `WritePolicy.derive`; then the tree is as
  ///   before.
  private mutating func apply(
    _ decision: Decision<Void>, _ entries: Int, at time: Int64, to joint: inout JointWrite
  ) throws {
    var entries = entries
    guard var write = decision.write, let first = write.assignments.first else { return }
    lastLocation = first.location
    try checkOwnership(decision.completedDisconnectWrite)
    let before = tree
    if let policy = decision.policy, write.isLarge {
      hasLargeRequests = true
      if policy.denies(write, before: before.root, at: time) { throw EngineError.denied }
    }
    var assignments = write.resolve(in: before.root, at: time)
    try checkPriorities(above: assignments)
    var journaled = tree.apply(assignments, of: write)
    if let policy = decision.policy,
      let derived = try authorize(assignments, by: policy, over: before, at: time)
    {
      assignments = derived
      journaled = tree.apply(derived, of: write)
      entries = before.indexPlan.entriesChanged(below: .root, by: journaled.lazy.map(\.location))
    }
    joint.add(
      journaled, of: write, replacing: before.beforeImage(of: assignments), entries: entries)
  }

  /// Applies assignments and adds their commit.
  ///
  /// - Parameter prepared: a write that has the texts and indexes of large values.
  /// - Throws: `EngineError.commitTooLarge` and `.unstorable`; then nothing has changed.
  private mutating func commit(
    _ assignments: [Assignment], of prepared: Write?, at time: Int64,
    completing completed: [DisconnectWriteID]
  ) throws(EngineError) {
    let before = tree
    let beforeImage = before.beforeImage(of: assignments)
    let journaled = tree.apply(assignments, of: prepared, countsMemory: memory != nil)
    let text: CommitText?
    let growth: TreeGrowth?
    let counted = (largeTextBytes, textBytes)
    do {
      text = try writer.text(
        of: journaled, from: prepared, beforeImage: beforeImage, largeBytes: &largeTextBytes,
        bytes: &textBytes)
      growth = try self.growth(
        of: assignments, since: before.addedMemoryMax, from: before, beforeImage)
    } catch {
      (largeTextBytes, textBytes) = counted
      tree = before
      throw error
    }
    let keyTime = keyTime(of: time)
    var commit = Commit(
      sequence: sequence + 1, time: time, assignments: journaled, beforeImage: beforeImage,
      completedDisconnectWrites: completed, keyTime: keyTime, origin: nil,
      note: writer.note(keyTime: keyTime), text: text)
    commit.treeGrowth = growth
    add(commit, concerning: writer.listeners.views(concernedBy: assignments), over: before)
  }
}

extension Engine {
  /// The number of entries (see `IndexPlan.entriesChanged`) that a commit of several writes has at most, derived ones not
  /// counted, and the bytes of JSON with which it ends. So it exceeds the bytes by less than one write. They also bound the
  /// time of the last steps, which `jointTimeMax` does not cover: applying the whole commit, and encoding and reading back
  /// its text, costs O(entries × log entries + bytes). The values whose texts and indexes were made before cost O(1).
  static let jointMax = (entries: 1_024, bytes: batchBytesMax)

  /// The bytes of the branches in such a commit that the writer encodes: about a millisecond.
  static let jointEncodedMax = 128 * 1024

  /// The processor time after which a commit of several writes ends, because all other writes wait meanwhile. The same
  /// time ends a run of writes that are made singly. Only expensive rules take so long. The time for which the engine's
  /// thread waits for a processor does not count, so a busy machine does not divide a group without need.
  static let jointTimeMax = Duration.milliseconds(8)
}

/// The result of a step of several writes.
struct WritesProgress {
  /// The number of writes that were made or refused.
  var count = 0
  /// The errors of the refused ones by their indexes.
  var errors: [Int: any Error] = [:]
  /// The failure for which the next write can be neither made nor refused now.
  var failure: EngineError?
}

/// The locations that several writes of a commit change, one write after the other.
struct JointWrite {
  /// The number of writes, refused ones included.
  var count = 0
  /// The on-disconnect writes among them.
  var completed: [DisconnectWriteID] = []
  private var entries = 0
  private var locations: [Location] = []
  private var bytes = 0
  /// A write that has the texts and the indexes of the large values of all writes; nil if there are none.
  private(set) var prepared: Write?

  /// Whether a write with some entries may be added.
  func hasRoom(for entries: Int) -> Bool { self.entries + entries <= Engine.jointMax.entries }

  /// Whether no other write may be added.
  var isFull: Bool {
    entries >= Engine.jointMax.entries || bytes >= Engine.jointMax.bytes
  }

  /// Adds a write that was applied.
  ///
  /// - Parameters:
  ///   - journaled: see `Tree.apply`.
  ///   - write: the write, which may have the texts of its values.
  ///   - beforeImage: see `Tree.beforeImage`. A leaf above a location of the write is replaced by a branch. A later
  ///     write may remove that branch, and the leaf does not come back then. So the location of the leaf is added too.
  ///   - entries: the entries that it may change (see `IndexPlan.entriesChanged`), derived ones included.
  mutating func add(
    _ journaled: [Assignment], of write: Write? = nil, replacing beforeImage: [Assignment],
    entries: Int
  ) {
    self.entries += entries
    locations += journaled.map(\.location)
    for image in beforeImage where !image.location.isPriority {
      if !image.value.isAbsent, !image.value.isBranch { locations.append(image.location) }
    }
    var encoded = journaled
    if let write {
      encoded.removeAll { assignment in
        guard let count = write.textBytes(of: assignment.value) else { return false }
        bytes += count
        return true
      }
    }
    let part = Commit(sequence: 0, time: 0, assignments: encoded)
    bytes += part.estimatedBytes(upTo: Engine.jointMax.bytes)
  }

  /// Notes the texts and indexes of the values of a write, if it has some.
  mutating func prepare(_ write: Write) {
    guard write.isPrepared else { return }
    if prepared == nil { prepared = write } else { prepared?.addPreparedValues(of: write) }
  }

  /// Whether the writer has to encode few bytes of branches for a commit, if the writes had texts. Otherwise a write has
  /// changed the value of an earlier one.
  func isPrepared(_ assignments: [Assignment]) -> Bool {
    guard let prepared else { return true }
    var budget = Engine.jointEncodedMax
    return assignments.allSatisfy { assignment in
      !assignment.value.isBranch || prepared.textBytes(of: assignment.value) != nil
        || assignment.value.fits(budget: &budget)
    }
  }

  /// Returns the assignments that lead from the tree before the writes to the tree after them: the uppermost locations
  /// with their last values, in order and without overlaps. O(locations × log locations).
  ///
  /// - Parameter root: the tree after the writes.
  func assignments(in root: Node) -> [Assignment] {
    var result: [Assignment] = []
    for location in locations.sorted() {
      if let last = result.last, last.location.overlaps(next: location) { continue }
      let node = root.at(location.path)
      result.append(Assignment(location, location.isPriority ? node.priority : node))
    }
    return result
  }
}
