internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import Synchronization

/// Direct writes of the tree, which the rules authorize when they are made.
extension Operations {
  func submit(_ request: TreeWrite, once origin: WriteOrigin?, _ context: WriteContext) throws {
    switch request {
    case .set:
      try submit(request, once: origin, named: "SET", context)
    case .update:
      try checkUpdate(request, by: context.identity, once: origin)
      try submit(request, once: origin, named: "UPDATE", context)
    case .compareAndSet(let location, let etag, _):
      try compareAndSet(location, etag, request, once: origin, context)
    }
  }

  /// Checks the number of locations of an UPDATE, and of the keys of their paths. The writer applies each location, asks
  /// the rules about it and stores its path, and each of these goes through all keys of the path.
  ///
  /// - Parameter origin: the number of a write that may have been made before. Its entries are checked when it is decided,
  ///   because the indexes may have changed since then.
  /// - Throws: `WireError` if it has more of them than the writer carries out in one go.
  func checkUpdate(
    _ request: TreeWrite, by identity: Identity, once origin: WriteOrigin? = nil
  ) throws(WireError) {
    if case .administrator = identity { return }
    guard request.locationCount <= limits.updateLocationsMax else {
      throw WireError(
        .tooLarge,
        "one update may set at most \(limits.updateLocationsMax) locations; split it into several")
    }
    try checkKeys(of: request, by: identity)
    if origin == nil { try checkEntries(of: request) }
  }

  /// Checks the number of entries that an UPDATE may change in branches and their indexes.
  ///
  /// - Throws: `WireError`, as `checkUpdate` does.
  private func checkEntries(of request: TreeWrite) throws(WireError) {
    guard case .update(let path, let changes) = request,
      // Few locations are no longer work than a value with as many children.
      changes.count > Operations.locationsMadeAtOnceMax
    else { return }
    try checkEntries(
      engine.indexPlan.entriesChanged(below: path, by: changes.lazy.map(\.location)))
  }

  /// Checks the entries of a write that may be sent again, when it is decided for the first time.
  ///
  /// - Throws: `WireError`, as `checkUpdate` does.
  fileprivate func checkEntries(of write: Write, by identity: Identity) throws(WireError) {
    if case .administrator = identity { return }
    guard write.items.count > Operations.locationsMadeAtOnceMax else { return }
    try checkEntries(engine.indexPlan.entriesChanged(by: write))
  }

  private func checkEntries(_ count: Int) throws(WireError) {
    guard count > limits.updateEntriesMax else { return }
    throw WireError(
      .tooLarge,
      "one update may change at most \(limits.updateEntriesMax) entries of branches and their indexes, and this one "
        + "may change \(count); split it into several")
  }

  /// The most keys in the paths of all locations of one update, those of the path of the update included: four for each
  /// location that it may have.
  static let updateKeysMax = 8_192

  /// Checks the number of keys in the paths of an UPDATE, or of an on-disconnect write.
  ///
  /// - Throws: `WireError`, as `checkUpdate` does.
  func checkKeys(of request: TreeWrite, by identity: Identity) throws(WireError) {
    if case .administrator = identity { return }
    guard request.keyCount > Operations.updateKeysMax else { return }
    throw WireError(
      .tooLarge,
      "the paths of one update may have at most \(Operations.updateKeysMax) keys together; split it into several"
    )
  }

  private func submit(
    _ request: TreeWrite, once origin: WriteOrigin?, named name: StaticString,
    _ context: WriteContext
  ) throws {
    // A write that may be sent again was perhaps made before the rules denied it: the engine must look first.
    let isCheckedEarly = origin == nil
    guard !request.takesLongToMake else {
      return makeBeside(request, context, isCheckedEarly: isCheckedEarly) { [self] in
        enqueue($0, once: origin, named: name, context)
      }
    }
    let write = try made(request, for: context.quotaOwner)
    if isCheckedEarly { try checkEarlyAndBriefly(write, as: context.identity) }
    enqueue(write, once: origin, named: name, context)
  }

  private func enqueue(
    _ write: Write, once origin: WriteOrigin?, named name: StaticString, _ context: WriteContext
  ) {
    engine.submit(
      PendingTreeWrite(
        write: write, origin: origin, name: name, identity: context.identity,
        policy: writePolicy(as: context.identity), operations: self,
        quotaOwner: context.quotaOwner, completion: context.completion), of: context.owner)
  }

  func push(_ path: Path, _ value: WriteValue, _ context: WriteContext) throws {
    // Checked before a key is made, so that an error does not depend on the tree. The key is replaced.
    let location = Location(path.child(Key(index: 0)))
    let request = TreeWrite.set(location, value)
    guard !request.takesLongToMake else {
      return makeBeside(request, context, isCheckedEarly: false) { [self] in
        enqueue($0, below: path, context)
      }
    }
    enqueue(try made(request, for: context.quotaOwner), below: path, context)
  }

  private func enqueue(_ write: Write, below path: Path, _ context: WriteContext) {
    engine.submit(
      PendingPush(
        path: path, write: write, policy: writePolicy(as: context.identity), operations: self,
        quotaOwner: context.quotaOwner, completion: context.completion), of: context.owner)
  }
}

/// A SET or UPDATE in the queue of the engine.
struct PendingTreeWrite: Transaction {
  let write: Write
  let origin: WriteOrigin?
  /// The verb.
  let name: StaticString
  let identity: Identity
  let policy: (any WritePolicy)?
  let operations: Operations
  let quotaOwner: WriteQuotas.Owner
  let completion: @Sendable (Reply) -> Void

  func decide(_ proposal: inout Proposal) throws -> Decision<Void> {
    // Before the write is applied, which takes time of the writer.
    try operations.checkDerivation(write, as: identity)
    if origin != nil { try operations.checkEntries(of: write, by: identity) }
    try operations.writeOrder.check(origin, from: quotaOwner.network, now: proposal.now)
    return Decision(write, (), policy: policy, isBounded: policy != nil)
  }

  func refused(_ error: any Error) {
    operations.noteRefusal(of: origin, from: quotaOwner.network, error)
  }

  func complete(_ outcome: Swift.Result<Committed<Void>, any Error>) {
    switch outcome {
    case .success(let committed):
      operations.count(committed, for: quotaOwner)
      operations.continueUnfinishedWork()
      completion(.committed(committed.sequence))
    case .failure(let earlier as RepeatedWrite): completion(.committed(earlier.sequence))
    case .failure(let error): completion(.failure(operations.wireError(error)))
    }
  }
}

/// A PUSH in the queue of the engine. The key is made when it is decided.
struct PendingPush: Transaction {
  let path: Path
  /// The write with any key.
  let write: Write
  let policy: (any WritePolicy)?
  let operations: Operations
  let quotaOwner: WriteQuotas.Owner
  let completion: @Sendable (Reply) -> Void

  var name: StaticString { "PUSH" }

  func decide(_ proposal: inout Proposal) throws -> Decision<Key> {
    let place = proposal.root.at(path)
    let key = proposal.nextKey { place.child($0).isAbsent }
    if policy != nil { try operations.checkTimely(key, at: proposal.now) }
    return Decision(
      try write.moved(to: Location(path.child(key))), key, policy: policy, isBounded: policy != nil)
  }

  func complete(_ outcome: Swift.Result<Committed<Key>, any Error>) {
    switch outcome {
    case .success(let committed):
      operations.count(committed, for: quotaOwner)
      completion(.json(["key": .key(committed.result), "seq": .number(committed.sequence)]))
    case .failure(let error): completion(.failure(operations.wireError(error)))
    }
  }
}

extension Operations {
  /// Checks that the built-in rules can allow a key that the server has generated. After the clock was set back,
  /// generated keys continue from the latest one, so that they ascend, and the rules deny keys that are far ahead.
  ///
  /// - Throws: `WireError`, which says more than a denial. The first one is logged.
  fileprivate func checkTimely(_ key: Key, at now: Int64) throws(WireError) {
    guard rules.current.isAboutBlog, let time = PushID.time(of: key) else { return }
    let lead = time.subtractingReportingOverflow(now).partialValue
    guard lead > Limits.pushIDLeadMax else { return }
    let isFirst = hasLoggedClock.compareExchange(
      expected: false, desired: true, ordering: .relaxed
    ).exchanged
    if isFirst {
      logger.error(
        "the clock was set back, and clients cannot push until it has passed the time of the last key",
        metadata: ["aheadSeconds": "\(lead / 1_000)"])
    }
    throw WireError(
      .unavailable,
      "the clock of the server is \(lead / 1_000) seconds behind its last key: ask its administrator to set it "
        + "or, if it is right, to repair the folder with --clock-was-ahead; or use a key of your own"
    )
  }
}
