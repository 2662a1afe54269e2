internal import CanopyEngine
internal import CanopySocial
public import CanopyTree
internal import CanopyWire

/// Direct writes of the tree, about which the rules decide when they are made.
extension Operations {
  func submit(_ write: TreeWrite, once origin: WriteOrigin?, _ context: WriteContext) throws {
    switch write {
    case .set(let location, let value):
      submit(try Write.set(location, value), once: origin, named: "SET", context)
    case .update(let path, let changes):
      try checkUpdate(changes.count, by: context.identity)
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      submit(write, once: origin, named: "UPDATE", context)
    case .compareAndSet(let location, let etag, let value):
      try compareAndSet(location, etag, value, once: origin, context)
    }
  }

  /// - Throws: `WireError` when an UPDATE has more locations than the writer carries out in one go.
  private func checkUpdate(_ count: Int, by identity: Identity) throws(WireError) {
    if case .administrator = identity { return }
    guard count > limits.updateLocationsMax else { return }
    throw WireError(
      .tooLarge,
      "one UPDATE may set at most \(limits.updateLocationsMax) locations; split it into several")
  }

  private func submit(
    _ write: Write, once origin: WriteOrigin?, named name: StaticString, _ context: WriteContext
  ) {
    let authorize = writeAuthorization(as: context.identity)
    let derive = writeDerivation(as: context.identity)
    submit(
      { _ in Decision(write, (), authorize: authorize, derive: derive) }, once: origin, named: name,
      context
    ) { [self] in
      continueUnfinishedWork()
      return .committed($0.sequence)
    }
  }

  func push(_ path: Path, _ value: WriteValue, _ context: WriteContext) throws {
    // Checked before a key is made, so that an error does not depend on the tree.
    _ = try Write.set(Location(path.child(Key(index: 0))), value)
    let authorize = writeAuthorization(as: context.identity)
    let derive = writeDerivation(as: context.identity)
    let transaction: BlogTransaction<Key> = { proposal in
      let place = proposal.root.at(path)
      let key = proposal.nextKey { place.child($0).isAbsent }
      let write = try Write.set(Location(path.child(key)), value)
      return Decision(write, key, authorize: authorize, derive: derive)
    }
    submit(transaction, named: "PUSH", context) { .pushed($0.result, $0.sequence) }
  }
}

extension Node {
  /// The tag by which a client tells versions of a value apart: its hash. Absence has one as well.
  public var etag: String { isAbsent ? "null_etag" : hash }
}
