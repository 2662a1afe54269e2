internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire

/// Writes that take long to make: those of many locations or of large values.
extension Operations {
  /// The most locations of an UPDATE that is made, and whose rules are evaluated, on the caller's thread: about half a
  /// millisecond.
  public static let locationsMadeAtOnceMax = 64

  /// The most bytes of the values of a write that the writer encodes: about half a millisecond.
  static let bytesEncodedAtOnceMax = 64 * 1024

  /// Makes a write on another thread, in the turn of its connection, and encodes its large values there. Freeing the
  /// values takes long as well, so a refused write is freed there too. Meanwhile no later request of the connection may
  /// begin: see `runsAlone`. The write is dropped if its `WorkBeforeWrite` is cancelled before it is submitted.
  ///
  /// - Parameters:
  ///   - isCheckedEarly: whether the write is refused there if the rules deny it whatever the data is.
  ///   - submit: called with the write unless it is refused.
  func makeBeside(
    _ request: TreeWrite, _ context: WriteContext, isCheckedEarly: Bool,
    then submit: @escaping @Sendable (Write) -> Void
  ) {
    context.begin { [self] in
      do {
        try await beside(context.turns) { [self] in
          countRest(of: request, for: context.quotaOwner)
          var write = try made(request, for: context.quotaOwner)
          if isCheckedEarly { try checkEarly(write, as: context.identity) }
          prepare(&write, over: Operations.bytesEncodedAtOnceMax)
          try context.submitUnlessCancelled { submit(write) }
        }
      } catch {
        context.completion(.failure(wireError(error)))
      }
    }
  }

  /// Adds the indexes to the values of a write and encodes them, if together they have more bytes than the bound. So the
  /// writer need not. Call it on a thread that may be held.
  func prepare(_ write: inout Write, over bytesMax: Int) {
    write.addIndexes(of: engine.indexPlan, over: bytesMax)
    write.encodeValues(over: bytesMax)
  }
}

extension TreeWrite {
  /// Returns the write of a request, for a compare-and-set the one that follows the comparison, with the bytes of the
  /// paths of its leaves: see `Write.checkLeafPaths`.
  ///
  /// - Throws: `TreeError` if the tree cannot hold it, if paths of leaves or priorities are too long, or if a value with
  ///   server values is too large.
  func made(_ limits: Limits) throws -> (write: Write, leafPathBytes: Int) {
    let write =
      switch self {
      case .set(let location, let value), .compareAndSet(let location, _, let value):
        try Write.set(location, value)
      case .update(let path, let changes):
        try Write.update(path, changes.map { ($0.location, $0.value) })
      }
    let leafPathBytes = try write.checkLeafPaths()
    try write.checkServerValues()
    try write.checkPriorities(limits)
    return (write, leafPathBytes)
  }

  /// Whether the write takes long to make, to check early or to encode. O(1) for most writes.
  var takesLongToMake: Bool {
    switch self {
    case .set(_, let value), .compareAndSet(_, _, let value):
      return !value.node.fits(bytes: Operations.bytesEncodedAtOnceMax)
    case .update(_, let changes):
      guard changes.count <= Operations.locationsMadeAtOnceMax else { return true }
      var budget = Operations.bytesEncodedAtOnceMax
      return !changes.allSatisfy { $0.value.node.fits(budget: &budget) }
    }
  }
}
