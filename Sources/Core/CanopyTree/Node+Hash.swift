internal import Crypto
internal import Foundation

extension Node {
  /// The hash of the node as the official clients compute it: base64 of the SHA-1 of the node's
  /// hash text; empty for an absent node.
  ///
  /// The hash text of a leaf is `[priority:<type>:<p>:]<type>:<v>`, with a number as the 16 hex
  /// digits of its double. The text of a branch is `[priority:…:]` and `:key:hash` for each child
  /// in priority order. SHA-1 serves to tell versions apart, not for security.
  ///
  /// An integer that no double holds exactly also has its decimal digits: `number:<hex>:<decimal>`.
  /// Otherwise it would have the hash of its neighbours, and a compare-and-set would overwrite a value
  /// that the client has not read. The official clients cannot hold such an integer.
  ///
  /// - Complexity: O(size) the first time. The hashes of branches are cached (see `DigestCache`),
  ///   so after a change it costs the children of each branch on the way to the change.
  public var hash: String { hash(pausing: {}) }

  /// Returns `hash`.
  ///
  /// - Parameter pause: called for each node whose hash is not cached, on the calling thread.
  /// - Throws: the error of `pause`.
  public func hash<E: Error>(pausing pause: () throws(E) -> Void) throws(E) -> String {
    try isAbsent ? "" : digest(isKept: true, pause).base64
  }

  /// Returns the digest of a node.
  ///
  /// - Precondition: the node is not absent.
  /// - Parameters:
  ///   - isKept: whether the node is part of the tree. Nodes parsed temporarily from a packed branch are not cached.
  ///   - pause: called for each node whose digest is computed.
  private func digest<E: Error>(
    isKept: Bool, _ pause: () throws(E) -> Void
  ) throws(E) -> NodeDigest {
    assert(!isAbsent, "an absent node has no digest")
    let owner = isKept ? digestOwner : nil
    if let digest = owner?.digest { return digest }
    WorkCounter.touch()
    try pause()
    let digest = try computeDigest(isKept: isKept, pause)
    owner?.keep(digest)
    return digest
  }

  /// The object that owns the digest of the whole branch.
  var digestOwner: (any DigestOwner)? {
    switch storage {
    case .branch(let children): children.digestOwner
    case .packed(let packed): packed.digestOwner
    case .indexed(let box): box.children.digestOwner
    case .prioritized(let box): box.node.isBranch ? box : nil
    case .absent, .bool, .integer, .double, .string: nil
    }
  }

  private func computeDigest<E: Error>(
    isKept: Bool, _ pause: () throws(E) -> Void
  ) throws(E) -> NodeDigest {
    var text = HashText()
    if !priority.isAbsent {
      text.output.append("priority:")
      text.output.append(hashText: priority)
      text.output.append(UInt8(ascii: ":"))
    }
    if !isBranch {
      text.output.append(hashText: self)
      return text.finish()
    }
    let isPacked = packed != nil
    var failure: E?
    func append(_ key: Key, _ child: Node) -> Bool {
      do throws(E) {
        let digest = try child.digest(isKept: isKept && !isPacked, pause)
        text.output.append(UInt8(ascii: ":"))
        key.withUTF8 { text.output.append($0) }
        text.output.append(UInt8(ascii: ":"))
        digest.append(to: &text.output)
        text.drain()
        return true
      } catch {
        failure = error
        return false
      }
    }
    if Query.all.followsKeys(self) {
      forEachChild(append)
    } else {
      Query.all.forEachChild(of: self, append)
    }
    if let failure { throw failure }
    return text.finish()
  }
}

/// A text of any size that is hashed while it is written.
private struct HashText: ~Copyable {
  var output = JSONOutput()
  private var hasher = Insecure.SHA1()
  private static let bytesMax = 16 * 1024

  mutating func drain() {
    if output.count > HashText.bytesMax { update() }
  }

  private mutating func update() {
    output.withBytes { hasher.update(bufferPointer: $0) }
    output.removeAll()
  }

  mutating func finish() -> NodeDigest {
    update()
    return NodeDigest(hasher.finalize())
  }
}

extension JSONOutput {
  fileprivate mutating func append(hashText leaf: Node) {
    switch leaf.value {
    case .bool(let value): append(raw: "boolean:\(value)")
    case .integer(let value):
      append(hashNumber: Double(value))
      if Double(exactly: value) == nil {
        append(UInt8(ascii: ":"))
        append(value)
      }
    case .double(let value): append(hashNumber: value)
    case .string(let value):
      append("string:")
      append(raw: value)
    case .absent, .branch: break
    }
  }

  private mutating func append(hashNumber number: Double) {
    append("number:")
    for shift in stride(from: 60, through: 0, by: -4) {
      append(JSONScan.hexDigit(UInt8(truncatingIfNeeded: number.bitPattern >> UInt64(shift)) & 15))
    }
  }
}
