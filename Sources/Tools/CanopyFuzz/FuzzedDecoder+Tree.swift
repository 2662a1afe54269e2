internal import CanopyTree

/// JSON: the values of requests, imports and rows.
extension FuzzedDecoder {
  /// A JSON value. The first byte of an input is the size of the pieces in which the rest comes.
  static let json = FuzzedDecoder(
    name: "json",
    sources: [
      "Core/CanopyTree/JSON/JSONReader+Node.swift", "Core/CanopyTree/JSON/JSONReader.swift",
      "Core/CanopyTree/JSON/JSONScan.swift", "Core/CanopyTree/JSON/JSONValue.swift",
      "Core/CanopyTree/JSON/JSONOutput+WriteValue.swift",
      "Core/CanopyTree/PackedBranch+Parse.swift", "Core/CanopyTree/PackedBranch+Members.swift",
      "Core/CanopyTree/PackedBranch.swift", "Core/CanopyTree/Node+Invariants.swift",
      "Core/CanopyTree/Write.swift", "Core/CanopyTree/WriteValue.swift",
      "Core/CanopyTree/Key.swift", "Core/CanopyTree/PaddedInteger.swift",
    ]
  ) { input in
    guard let first = input.first else { return false }
    let bytes = Array(input.dropFirst())
    let whole = bytes.withUnsafeBytes { bytes in
      Result { () throws(TreeError) in try WriteValue(json: bytes) }
    }
    let pieces = read(bytes, pieceBytes: 1 + Int(first) % 9)
    switch (whole, pieces) {
    case (.success(let value), .success(let other)):
      try expect(value.isSame(as: other), "the value depends on the pieces: \(bytes.shown)")
      try checkValue(value)
    case (.failure(let error), .failure(let other)):
      try expect(
        error.sentence == other.sentence,
        "the error depends on the pieces: \(error.sentence), \(other.sentence)")
    default: throw Finding(description: "the verdict depends on the pieces: \(bytes.shown)")
    }
    try checkLimits(bytes)
    let isUpdate = try checkUpdate(bytes)
    let isValue = (try? bytes.withUnsafeBytes { try JSONValue(json: $0) }) != nil
    // A tree value is stricter: it has valid keys.
    if case .success = whole { try expect(isValue, "a tree value is not JSON: \(bytes.shown)") }
    return isUpdate || isValue
  }

  /// Reads a value from a source, as an import does.
  private static func read(_ bytes: [UInt8], pieceBytes: Int) -> Result<WriteValue, TreeError> {
    var rest = bytes[...]
    var reader = JSONReader(source: { buffer in
      let piece = rest.prefix(pieceBytes)
      rest = rest.dropFirst(piece.count)
      buffer.copyBytes(from: piece)
      return piece.count
    })
    do throws(TreeError) {
      let value = try reader.readNode()
      try reader.readEnd()
      return .success(value)
    } catch { return .failure(error) }
  }

  /// Checks that a value is sound, and is read again as it was written.
  private static func checkValue(_ value: WriteValue) throws {
    if let problem = value.node.brokenInvariant() { throw Finding(description: problem) }
    var output = JSONOutput()
    output.append(value)
    let again = try? output.withBytes { try WriteValue(json: $0) }
    try expect(
      again.map { value.isSame(as: $0) } ?? false,
      "the value is not read again: \(output.text.debugDescription)")
    guard value.serverValues.isEmpty else { return }
    let text = value.node.json(.export)
    try expect(
      (try? Node(json: text)) == value.node, "the node is not read again: \(text.debugDescription)")
  }

  /// Checks that a value within small limits has no string above them.
  private static func checkLimits(_ bytes: [UInt8]) throws {
    var limits = Limits()
    limits.stringBytesMax = 8
    limits.priorityBytesMax = 4
    guard let value = try? bytes.withUnsafeBytes({ try WriteValue(json: $0, limits: limits) })
    else { return }
    try checkStrings(of: value.node)
  }

  private static func checkStrings(of node: Node) throws {
    let isInLimits =
      (node.stringValue?.utf8.count ?? 0) <= 8 && (node.priority.stringValue?.utf8.count ?? 0) <= 4
    try expect(isInLimits, "a string exceeds the limits")
    var children: [Node] = []
    node.forEachChild { _, child in
      children.append(child)
      return true
    }
    for child in children { try checkStrings(of: child) }
  }

  /// Applies an update to a tree, if the bytes are one. Returns whether they are.
  private static func checkUpdate(_ bytes: [UInt8]) throws -> Bool {
    guard
      let changes = try? bytes.withUnsafeBytes({ try JSONReader.readUpdate(json: $0) }),
      let write = try? Write.update(.root, changes)
    else { return false }
    var tree = FuzzTree.tree
    let assignments = tree.apply(write.resolved(in: tree.root, at: 1_700_000_000_000))
    if let problem = tree.root.brokenInvariant() { throw Finding(description: problem) }
    // The journal must be able to store each write that the tree takes.
    try CommitCheck.check(assignments.sorted { $0.location < $1.location }, image: nil)
    return true
  }
}

/// A small tree to which writes are applied.
enum FuzzTree {
  static let tree = Tree(
    root: (try? Node(
      json: #"{"a":{"b":"text","n":5,"s":"aéa","deep":{"x":{"y":{".value":1,".priority":"p"}}}},"#
        + #""ann":true,"n":9223372036854775807,"s":"aaa","list":[1,2.5,null,"z"],".priority":3}"#))
      ?? .absent)
}

extension WriteValue {
  /// Whether both values have the same node and the same server values, in any order.
  func isSame(as other: WriteValue) -> Bool {
    func sorted(_ values: [LocatedServerValue]) -> [LocatedServerValue] {
      values.sorted {
        Location($0.path, isPriority: $0.isPriority) < Location($1.path, isPriority: $1.isPriority)
      }
    }
    return node == other.node && sorted(serverValues) == sorted(other.serverValues)
  }
}
