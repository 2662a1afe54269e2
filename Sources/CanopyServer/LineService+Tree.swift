internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

extension LineService {
  func get(
    _ location: Location, _ options: GetOptions, in root: Node, to output: inout JSONOutput
  ) throws(WireError) {
    let node = root.at(location)
    let style: JSONStyle = options.isExport ? .export : .plain
    if options.hasQuery {
      // `"k":1,` has six bytes.
      let count = options.query.count(in: node)
      guard count <= limits.replyBytesMax / 6 else { throw replyTooLarge }
      let members = options.query.children(of: node)
      return try append(members: members, style, to: &output)
    }
    if options.isShallow, node.isBranch {
      guard node.childCount <= limits.replyBytesMax / 6 else { throw replyTooLarge }
      var members: [(key: Key, node: Node)] = []
      node.forEachChild { key, child in
        members.append((key, child.isBranch ? true : child))
        return true
      }
      return try append(members: members, style, to: &output)
    }
    guard node.fits(bytes: limits.replyBytesMax) else { throw replyTooLarge }
    Reply.success(to: &output) { output in
      guard options.wantsETag else { return output.append(node, style: style) }
      output.append("{\"etag\":")
      output.append(string: node.etag)
      output.append(",\"data\":")
      output.append(node, style: style)
      output.append("}")
    }
  }

  /// Answers members in the order given; an object even where the keys are integers, to keep that.
  private func append(
    members: [(key: Key, node: Node)], _ style: JSONStyle, to output: inout JSONOutput
  ) throws(WireError) {
    var text = JSONOutput()
    for (key, node) in members {
      guard node.fits(bytes: limits.replyBytesMax - text.count) else { throw replyTooLarge }
      text.append(text.count == 0 ? "{" : ",")
      text.append(key: key)
      text.append(UInt8(ascii: ":"))
      text.append(node, style: style)
    }
    text.append(members.isEmpty ? "null" : "}")
    Reply.success(to: &output) { output in text.withBytes { output.append($0) } }
  }

  var replyTooLarge: WireError {
    WireError(
      .tooLarge,
      "what you ask for is larger than a reply may be; ask for fewer entries, with a limit, with "
        + "\"shallow\":true, or further below")
  }

  /// Submits a write to the tree, which the rules judge when it is made.
  ///
  /// - Parameter origin: which write of which client it is, if it said so.
  func submitTree(
    _ request: Request, as identity: Identity, once origin: WriteOrigin? = nil,
    _ answer: @escaping @Sendable (Response) -> Void
  ) throws {
    switch request {
    case .set(let location, let value):
      submit(try Write.set(location, value), as: identity, once: origin, answer)
    case .update(let path, let changes):
      let write = try Write.update(path, changes.map { ($0.location, $0.value) })
      submit(write, as: identity, once: origin, answer)
    case .remove(let location):
      submit(try Write.set(location, WriteValue(.absent)), as: identity, once: origin, answer)
    case .push(let path, let value):
      try push(path, value, as: identity, answer)
    case .compareAndSet(let location, let etag, let value):
      try compareAndSet(location, etag, value, as: identity, once: origin, answer)
    default:
      throw WireError(.internalError, "the request is not a write")
    }
  }

  private func submit(
    _ write: Write, as identity: Identity, once origin: WriteOrigin?,
    _ answer: @escaping @Sendable (Response) -> Void
  ) {
    let judge = writeJudge(as: identity)
    let tell: @Sendable (inout JSONOutput, Int64) -> Void = { output, sequence in
      output.append("{\"seq\":")
      output.append(sequence)
      output.append("}")
    }
    submit({ _ in Decision(write, (), judge: judge) }, once: origin, answer, repeated: tell) {
      tell(&$0, $1.sequence)
    }
  }

  private func push(
    _ path: Path, _ value: WriteValue, as identity: Identity,
    _ answer: @escaping @Sendable (Response) -> Void
  ) throws {
    // Checked before a key is made, so that what is wrong with it is told whatever the tree is.
    _ = try Write.set(Location(path.child(Key(index: 0))), value)
    let judge = writeJudge(as: identity)
    let transaction: Transaction<Key> = { proposal in
      let key = proposal.nextKey()
      return Decision(try Write.set(Location(path.child(key)), value), key, judge: judge)
    }
    submit(transaction, answer) { output, committed in
      output.append("{\"key\":")
      output.append(key: committed.result)
      output.append(",\"seq\":")
      output.append(committed.sequence)
      output.append("}")
    }
  }

  /// Null when it was set; otherwise what stands there, for those who may read it. For all others a
  /// wrong ETag is denied as a write is: whoever may do neither learns nothing of what is there.
  private func compareAndSet(
    _ location: Location, _ etag: String, _ value: WriteValue, as identity: Identity,
    once origin: WriteOrigin?,
    _ answer: @escaping @Sendable (Response) -> Void
  ) throws {
    let write = try Write.set(location, value)
    let (replyBytesMax, tooLarge) = (limits.replyBytesMax, replyTooLarge)
    let judge = writeJudge(as: identity)
    let transaction: Transaction<Node?> = { [self] proposal in
      let present = proposal.root.at(location)
      // Nobody can have the ETag of what no reply could hold; hashing it would keep others waiting.
      let fits = present.fits(bytes: replyBytesMax)
      if fits, present.etag.hasSameBytes(as: etag) { return Decision(write, nil, judge: judge) }
      try checkRead(location.path, .all, in: proposal.root, as: identity)
      guard fits else { throw tooLarge }
      return Decision(nil, present)
    }
    let tell: @Sendable (inout JSONOutput, Int64) -> Void = { output, sequence in
      output.append("{\"committed\":true,\"seq\":")
      output.append(sequence)
      output.append("}")
    }
    submit(transaction, once: origin, answer, repeated: tell) { output, committed in
      guard let present = committed.result else { return tell(&output, committed.sequence) }
      output.append("{\"committed\":false,\"etag\":")
      output.append(string: present.etag)
      output.append(",\"data\":")
      // Who may send again keeps a copy, to which priorities belong.
      output.append(present, style: origin == nil ? .plain : .export)
      output.append("}")
    }
  }
}

extension Node {
  /// The node or the priority at a location.
  fileprivate func at(_ location: Location) -> Node {
    location.isPriority ? at(location.path).priority : at(location.path)
  }

  /// The tag by which a client tells versions of a value apart: its hash. Nothing has one as well.
  fileprivate var etag: String { isAbsent ? "null_etag" : hash }
}
