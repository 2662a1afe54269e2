internal import Crypto
internal import Foundation

extension Node {
  /// The hash of the node as the official clients compute it: base64 of the SHA-1 of a text that
  /// spells the node; empty for what is absent.
  ///
  /// A leaf's text is `[priority:<type>:<p>:]<type>:<v>`, a number being the 16 hex digits of its
  /// double; a branch's is `[priority:…:]` and `:key:hash` for each child in the order of priority.
  /// SHA-1 serves to tell versions apart, not to protect anything. O(size).
  public var hash: String {
    if isAbsent { return "" }
    var text = JSONOutput()
    if !priority.isAbsent {
      text.append("priority:")
      text.append(hashText: priority)
      text.append(UInt8(ascii: ":"))
    }
    if isBranch {
      for (key, child) in Query.all.children(of: self) {
        text.append(UInt8(ascii: ":"))
        key.withUTF8 { text.append($0) }
        text.append(UInt8(ascii: ":"))
        text.append(raw: child.hash)
      }
    } else {
      text.append(hashText: self)
    }
    let digest = text.withBytes { Insecure.SHA1.hash(data: $0) }
    return Data(digest).base64EncodedString()
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
