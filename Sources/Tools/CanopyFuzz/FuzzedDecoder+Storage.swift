internal import CanopyBackup
internal import CanopyEngine
internal import CanopyRows
internal import CanopySQLite
internal import CanopyTree
internal import Crypto
internal import Foundation

/// The rows and files of a data folder.
extension FuzzedDecoder {
  /// A row of the journal: the assignments, and after a zero byte the before-image. Or the note of a commit.
  static let commits = FuzzedDecoder(
    name: "commits",
    sources: [
      "Core/CanopyTree/Assignment.swift", "Core/CanopyTree/BeforeImageCodec.swift",
      "Core/CanopyTree/ReadBack.swift", "Core/CanopyTree/Location.swift",
      "Core/CanopyTree/Path.swift", "Core/CanopyEngine/CommitText.swift",
      "Core/CanopyEngine/CommitNote.swift",
    ]
  ) { input in
    if input.first == UInt8(ascii: "{") { return try CommitCheck.note(input) }
    let parts = input.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    let body = Array(parts[0])
    guard let assignments = try? body.withUnsafeBytes({ try AssignmentCodec.decode($0) }) else {
      _ = try? body.withUnsafeBytes { try AssignmentCodec.decodeLocations($0) }
      return false
    }
    let locations = try body.withUnsafeBytes { try AssignmentCodec.decodeLocations($0) }
    try expect(
      locations.sorted() == assignments.map(\.location), "the locations differ: \(body.shown)")
    var image: [Assignment]?
    if parts.count > 1 {
      image = try? Array(parts[1]).withUnsafeBytes {
        try BeforeImageCodec.decode($0, of: assignments)
      }
    }
    try CommitCheck.check(assignments, image: image)
    return true
  }

  /// The rows of a checkpoint, one in each line: the location, a space and the value.
  static let checkpoint = FuzzedDecoder(
    name: "checkpoint",
    sources: [
      "Core/CanopyTree/TreeBuilder.swift", "Core/CanopyTree/PackedBranch+Parse.swift",
      "Storage/CanopyRows/RowEmitter.swift",
    ]
  ) { input in
    let rows = input.split(separator: UInt8(ascii: "\n")).map { line in
      let location = line.prefix { $0 != UInt8(ascii: " ") }
      return (location: Array(location), value: Array(line.dropFirst(location.count + 1)))
    }
    guard let root = try? CheckpointCheck.tree(rows) else { return false }
    try CheckpointCheck.check(root)
    return true
  }

  /// `canopy.tail`. The first 40 bytes are the numbers of a file that is written, and the following ones alter bytes of it.
  static let tail = FuzzedDecoder(
    name: "tail",
    sources: ["Storage/CanopySQLite/Tail.swift", "Storage/CanopyRows/Checksum.swift"]
  ) { input in try ScratchFolder.withFolder { try check(tail: input, in: $0) } }

  private static func check(tail input: [UInt8], in folder: ScratchFolder) throws -> Bool {
    let file = TailFile(folder: folder.path, isRelaxed: false)
    // The bytes as they are.
    try folder.write(input, to: "canopy.tail")
    let accepted = (try? file.read()) != nil
    guard input.count >= 40 else { return accepted }
    let numbers = input.withUnsafeBytes { bytes in
      (0..<5).map { bytes.loadUnaligned(fromByteOffset: 8 * $0, as: Int64.self) }
    }
    var intact: [UInt8] = Array("CANOPYT1".utf8) + input.prefix(32)
    intact += [UInt8](repeating: 0, count: 24)
    let checksum = intact.withUnsafeBytes { Checksum.xxh64($0, seed: 4) }
    withUnsafeBytes(of: checksum.littleEndian) { intact.append(contentsOf: $0) }
    try folder.write(intact, to: "canopy.tail")
    let contents = try file.read()
    let isInRange = [numbers[0], numbers[2]].allSatisfy { 0...1 << 62 ~= $0 }
    try expect(
      (contents != nil) == isInRange,
      "the sequence number \(numbers[0]) or the revision \(numbers[2]) is read wrongly")
    if let tail = contents?.tail {
      try expect(
        tail.sequence == numbers[0] && tail.checksum.stored == numbers[1]
          && tail.revision == numbers[2] && tail.time == numbers[3], "the numbers differ")
    }
    let altered = alter(intact, by: input.dropFirst(40))
    guard altered != intact else { return contents != nil }
    try folder.write(altered, to: "canopy.tail")
    try expect(try file.read() == nil, "an altered file is accepted")
    return contents != nil
  }

  /// A write-ahead log.
  static let log = FuzzedDecoder(
    name: "log",
    sources: [
      "Storage/CanopySQLite/LogScan.swift", "Storage/CanopySQLite/LogSum.swift",
      "Storage/CanopySQLite/LogCorrection.swift", "Storage/CanopySQLite/LogFrames.swift",
      "Storage/CanopySQLite/DurableChange.swift",
    ]
  ) { input in try ScratchFolder.withFolder { try check(log: input, in: $0) } }

  private static func check(log input: [UInt8], in folder: ScratchFolder) throws -> Bool {
    try folder.write(input, to: "canopy.sqlite-wal")
    guard let scan = try LogScan.scan(database: folder.path + "/canopy.sqlite") else {
      return false
    }
    // A frame has at least 536 bytes.
    try expect(
      scan.transactions + scan.lostTransactions <= input.count / 536, "too many transactions")
    let isCorrected = try LogCorrection.run(database: folder.path + "/canopy.sqlite")
    let corrected = try LogScan.scan(database: folder.path + "/canopy.sqlite")
    try expect(
      corrected.map { $0.transactions >= scan.transactions } == true,
      "a correction has lost a transaction")
    try expect(
      isCorrected || corrected?.transactions == scan.transactions,
      "the log has changed without a correction")
    return scan.transactions > 0
  }

  /// The archive of a backup. An input consists of lines `NAME CONTENTS`, which become the files of an archive, and after
  /// a zero byte of bytes that alter it.
  static let backup = FuzzedDecoder(
    name: "backup",
    sources: [
      "Storage/CanopyBackup/BackupReader.swift", "Storage/CanopyBackup/TarHeader.swift",
      "Storage/CanopyBackup/BackupDescription.swift",
    ]
  ) { input in try ScratchFolder.withFolder { try check(backup: input, in: $0) } }

  private static func check(backup input: [UInt8], in folder: ScratchFolder) throws -> Bool {
    let parts = input.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    let archive = Archive(lines: parts[0])
    func isAccepted(_ bytes: [UInt8]) throws -> Bool {
      try folder.write(bytes, to: "backup.tar")
      return (try? BackupFile(folder.path + "/backup.tar").unpack(to: nil)) != nil
    }
    // The bytes as they are.
    _ = try isAccepted(input)
    let accepted = try isAccepted(archive.bytes)
    guard accepted, parts.count > 1 else { return accepted }
    let altered = alter(archive.bytes, by: parts[1])
    if altered != archive.bytes {
      try expect(try !isAccepted(altered), "an altered archive is accepted")
    }
    return true
  }

  /// Returns bytes that are altered, cut off or extended as the three bytes of each change say.
  private static func alter(_ bytes: [UInt8], by changes: ArraySlice<UInt8>) -> [UInt8] {
    var result = bytes
    var rest = changes
    while let high = rest.popFirst(), let low = rest.popFirst(), let mask = rest.popFirst() {
      let place = Int(high) << 8 | Int(low)
      if place < result.count {
        if mask == 0xFF { result.removeSubrange(place...) } else { result[place] ^= mask }
      } else {
        result.append(mask)
      }
    }
    return result
  }
}

/// The properties of a commit.
enum CommitCheck {
  /// Checks that a commit is stored as text that is read again.
  ///
  /// - Parameter assignments: in the order of their locations.
  static func check(_ assignments: [Assignment], image: [Assignment]?) throws {
    var scratch = JSONOutput()
    let text: CommitText
    do { text = try CommitText(assignments, beforeImage: image, scratch: &scratch) } catch {
      throw Finding(description: "the commit cannot be stored: \(error)")
    }
    try text.withBytes { body, before in
      try expect(
        (try? AssignmentCodec.decode(body)) == assignments, "the commit differs: \(body.shown)")
      guard let before else {
        return try expect(image == nil, "the before-image is left out: \(body.shown)")
      }
      try expect(
        (try? BeforeImageCodec.decode(before, of: assignments)) == image,
        "the before-image differs: \(before.shown)")
    }
  }

  /// Checks the note of a commit. Returns whether it is valid.
  static func note(_ input: [UInt8]) throws -> Bool {
    guard let text = String(validating: input, as: UTF8.self),
      let note = try? CommitNote(text: text)
    else { return false }
    try expect(
      (try? CommitNote(text: note.text)) == note, "the note differs: \(note.text)")
    return true
  }
}

/// The properties of a checkpoint.
private enum CheckpointCheck {
  static func tree(_ rows: [(location: [UInt8], value: [UInt8])]) throws -> Node {
    var builder = TreeBuilder()
    for row in rows {
      try row.location.withUnsafeBytes { location in
        try row.value.withUnsafeBytes { try builder.add(json: $0, at: location) }
      }
    }
    return try builder.finish()
  }

  /// Checks that a tree is sound, and that its rows make the same tree.
  static func check(_ root: Node) throws {
    if let problem = root.brokenInvariant() { throw Finding(description: problem) }
    // No write and no import makes a deeper tree, so no row with a valid checksum does. Reading does not measure the depth
    // of each value, because that would slow down every start.
    guard root.height <= Limits.depthMax else { return }
    var rows: [(location: [UInt8], value: [UInt8])] = []
    var emitter = RowEmitter(.root, root, rowBytes: 64, splittingTop: true)
    while let (location, node) = emitter.next() {
      rows.append((Array(location.text.utf8), Array(node.json(.export).utf8)))
    }
    // The order of the table.
    rows.sort { $0.location.lexicographicallyPrecedes($1.location) }
    try expect(
      (try? tree(rows)) == root,
      "the rows make another tree: \(root.json(.export).debugDescription)")
  }
}

/// An archive that consists of the given files and their checksums.
private struct Archive {
  private(set) var bytes: [UInt8] = []
  private var sums = ""

  init(lines: ArraySlice<UInt8>) {
    for line in lines.split(separator: UInt8(ascii: "\n")) {
      let name = line.prefix { $0 != UInt8(ascii: " ") }
      let text = String(decoding: name, as: UTF8.self)
      guard text.utf8.count <= 100 else { continue }
      let contents = Array(line.dropFirst(name.count + 1))
      append(text, contents)
      let digits = SHA256.hash(data: contents).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
      sums += digits.joined() + "  \(text)\n"
    }
    append("SHA256SUMS", Array(sums.utf8))
    bytes += [UInt8](repeating: 0, count: 2 * TarHeader.blockBytes)
  }

  private mutating func append(_ name: String, _ contents: [UInt8]) {
    let header = TarHeader(name: name, size: contents.count, seconds: 1_700_000_000)
    bytes += header.encoded
    bytes += contents
    bytes += [UInt8](repeating: 0, count: header.padding)
  }
}
