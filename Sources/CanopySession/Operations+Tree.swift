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
      let write = try Write.set(location, value)
      submit(write, as: identity, once: origin, named: "SET", completion)
    case .update(let path, let changes):
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      submit(write, as: identity, once: origin, named: "UPDATE", completion)
    case .compareAndSet(let location, let etag, let value):
      try compareAndSet(location, etag, value, as: identity, once: origin, completion)
    }
  }

  private func submit(
    _ write: Write, as identity: Identity, once origin: WriteOrigin?, named name: StaticString,
    _ completion: @escaping @Sendable (Reply) -> Void
  ) {
    let judge = writeJudge(as: identity)
    submit({ _ in Decision(write, (), judge: judge) }, once: origin, named: name, completion) {
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
    submit(transaction, named: "PUSH", completion) { .pushed($0.result, $0.sequence) }
  }
}

extension Node {
  /// The tag by which a client tells versions of a value apart: its hash. Absence has one as well.
  public var etag: String { isAbsent ? "null_etag" : hash }
}
