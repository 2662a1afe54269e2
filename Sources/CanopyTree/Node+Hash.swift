internal import Crypto
internal import Foundation

extension Node {
  /// The hash of the node as the official clients compute it: base64 of the SHA-1 of a text that
  /// spells the node; empty for what is absent.
  ///
  /// A leaf's text is `[priority:<type>:<p>:]<type>:<v>`, a number being the 16 hex digits of its
  /// double; a branch's is `[priority:…:]` and `:key:hash` for each child in the order of priority.
  /// SHA-1 serves to tell versions apart, not to protect anything.
  ///
  /// O(size) the first time. The hashes of branches are kept (see `DigestCache`), so that after a change
  /// it costs the children of each branch on the way to the change.
  public var hash: String { isAbsent ? "" : digest(isKept: true).base64 }

  /// The digest of a node that is not absent.
  ///
  /// - Parameter isKept: whether the node is part of the tree; what is made of a record's text for the
  ///   moment is not worth keeping.
  private func digest(isKept: Bool) -> NodeDigest {
    let owner = isKept ? digestOwner : nil
    if let digest = owner?.digest { return digest }
    WorkCounter.touch()
    let digest = computeDigest(isKept: isKept)
    owner?.keep(digest)
    return digest
  }

  /// The object that stands for the branch with all that is below it.
  var digestOwner: (any DigestOwner)? {
    switch storage {
    case .branch(let children): children.digestOwner
    case .record(let record): record.digestOwner
    case .indexed(let box): box.children.digestOwner
    case .prioritized(let box): box.node.isBranch ? box : nil
    case .absent, .bool, .integer, .double, .string: nil
    }
  }

  private func computeDigest(isKept: Bool) -> NodeDigest {
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
    let isRecord = record != nil
    func append(_ key: Key, _ child: Node) -> Bool {
      text.output.append(UInt8(ascii: ":"))
      key.withUTF8 { text.output.append($0) }
      text.output.append(UInt8(ascii: ":"))
      child.digest(isKept: isKept && !isRecord).append(to: &text.output)
      text.drain()
      return true
    }
    if Query.all.followsKeys(self) {
      forEachChild(append)
    } else {
      for (key, child) in Query.all.children(of: self) { _ = append(key, child) }
    }
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
    case .integer(let value): append(hashNumber: Double(value))
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
