internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire

extension RealtimeRequest {
  /// Translates a request.
  ///
  /// - Parameter hash: the hash of the data that the client has of a query that it listens to; nil if it has none.
  init(_ request: ServerRequest, hash: String?) {
    switch request {
    case .authenticate(let token): self = .authenticate(AuthenticationBody(token: token))
    case .unauthenticate: self = .unauthenticate
    case .listen(let listen):
      self = .listen(
        ListenBody(ListenTarget(listen.spec, tag: Int64(listen.tag.number)), hash: hash))
    case .unlisten(let tag, let spec):
      self = .unlisten(ListenTarget(spec ?? QuerySpec(.root), tag: tag))
    case .get(let spec): self = .get(spec.path, spec.query)
    case .write(let write, _):
      if write.items.count == 1, let item = write.items.first {
        self = .put(PutBody(item.location, item.value))
      } else {
        let changes = write.items.map { Request.Update(location: $0.location, value: $0.value) }
        self = .merge(MergeBody(.root, changes))
      }
    case .compareAndSet(let path, let base, let value, _):
      // Absent data have an empty hash in this protocol.
      let hash = base.isAbsent ? "" : base.hash
      self = .put(PutBody(Location(path), value, hash: hash))
    case .disconnect(let operation):
      switch operation.kind {
      case .set(let value): self = .disconnectPut(Location(operation.path), value)
      case .update(let changes):
        self = .disconnectMerge(
          operation.path, changes.map { Request.Update(location: $0, value: $1) })
      case .cancel: self = .disconnectCancel(operation.path)
      }
    }
  }
}

extension ListenTarget {
  /// Names the listener of a query. That of a whole location has no tag.
  fileprivate init(_ spec: QuerySpec, tag: Int64) {
    let isWhole = spec.query.isUnbounded
    self.init(spec.path, isWhole ? .all : spec.query, tag: isWhole ? nil : tag)
  }
}
