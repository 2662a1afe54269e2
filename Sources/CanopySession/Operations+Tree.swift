internal import CanopyEngine
internal import CanopySocial
public import CanopyTree
internal import CanopyWire

/// Direct writes of the tree, about which the rules decide when they are made.
extension Operations {
  func submit(
    _ write: TreeWrite, as identity: Identity, once origin: WriteOrigin?,
    _ completion: @escaping @Sendable (Reply) -> Void
  ) throws {
    switch write {
    case .set(let location, let value):
      submit(try Write.set(location, value), as: identity, once: origin, completion)
    case .update(let path, let changes):
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      submit(write, as: identity, once: origin, completion)
    case .compareAndSet(let location, let etag, let value):
      try compareAndSet(location, etag, value, as: identity, once: origin, completion)
    }
  }

  private func submit(
    _ write: Write, as identity: Identity, once origin: WriteOrigin?,
    _ completion: @escaping @Sendable (Reply) -> Void
  ) {
    let judge = writeJudge(as: identity)
    submit({ _ in Decision(write, (), judge: judge) }, once: origin, completion) {
      .committed($0.sequence)
    }
  }

  func push(
    _ path: Path, _ value: WriteValue, as identity: Identity,
    _ completion: @escaping @Sendable (Reply) -> Void
  ) throws {
    // Checked before a key is made, so that an error does not depend on the tree.
    _ = try Write.set(Location(path.child(Key(index: 0))), value)
    let judge = writeJudge(as: identity)
    let transaction: Transaction<Key> = { proposal in
      let key = proposal.nextKey()
      return Decision(try Write.set(Location(path.child(key)), value), key, judge: judge)
    }
    submit(transaction, completion) { .pushed($0.result, $0.sequence) }
  }

  /// Replaces a value if it still has an ETag. Otherwise the client gets the present value if it may read
  /// it; if not, the write is denied like any other, so that it learns nothing of the value.
  private func compareAndSet(
    _ location: Location, _ etag: String, _ value: WriteValue, as identity: Identity,
    once origin: WriteOrigin?, _ completion: @escaping @Sendable (Reply) -> Void
  ) throws {
    let write = try Write.set(location, value)
    let (replyBytesMax, tooLarge) = (limits.replyBytesMax, replyTooLarge)
    let judge = writeJudge(as: identity)
    let transaction: Transaction<(node: Node, bytes: Int)?> = { [self] proposal in
      let present = proposal.root.at(location)
      // Nobody can have the ETag of a value that no reply could hold; hashing it would delay others.
      var budget = replyBytesMax
      let fits = present.fits(budget: &budget)
      if fits, present.etag == etag { return Decision(write, nil, judge: judge) }
      try checkRead(location.path, .all, in: proposal.root, as: identity)
      guard fits else { throw tooLarge }
      return Decision(nil, (present, replyBytesMax - budget))
    }
    // A client that may send again keeps a copy, to which priorities belong.
    let style: JSONStyle = origin == nil ? .plain : .export
    submit(transaction, once: origin, completion, repeated: { .exchanged($0) }) { committed in
      committed.result.map { .mismatch($0.node, style, bytes: $0.bytes) }
        ?? .exchanged(committed.sequence)
    }
  }
}

extension Node {
  /// The tag by which a client tells versions of a value apart: its hash. Absence has one as well.
  public var etag: String { isAbsent ? "null_etag" : hash }
}
