import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// Damaged write-ahead logs whose checksums prove the bytes that were there.
@Suite(.timeLimit(.minutes(20))) struct LogCorrectionTests {
  private static let commits: Int64 = 40
  private static let frameBytes = 4_120

  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Fills the folder, and leaves it as a crash would, with commits that only the log has.
  private func crash() async throws -> Folder {
    // Closed once, so that the tables are in the database file.
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      for number in 1...Self.commits {
        // A value of two pages, and small ones.
        let text = String(repeating: "x", count: number % 8 == 0 ? 7_000 : 100)
        try store.append([commit(number, "n/\(number)", Node(text))], after: number - 1)
      }
      return try folder.crashed()
    }
  }

  private func log(_ folder: Folder) throws -> Data {
    try Data(contentsOf: URL(filePath: folder.database + "-wal"))
  }

  private func changed(_ folder: Folder, _ change: (inout Data) -> Void) throws -> Folder {
    let copy = try folder.crashed()
    var data = try log(copy)
    change(&data)
    try data.write(to: URL(filePath: copy.database + "-wal"))
    return copy
  }

  private func word(_ data: Data, _ offset: Int) -> Int {
    data[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
  }

  /// Returns the offsets of the frames.
  private func frames(_ data: Data) -> [Int] {
    stride(from: 32, through: data.count - Self.frameBytes, by: Self.frameBytes).filter {
      data[$0 + 8..<$0 + 16].elementsEqual(data[16..<24])
    }
  }

  /// Accepts the losses of a folder. Returns the notes, and the number of commits whose values are in the tree, from the
  /// first one on.
  private func accept(_ folder: Folder) async throws -> (notes: [String], commits: Int) {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let notes = try await folder.withStore(configuration) { try await $0.acceptLosses().notes }
    let commits = try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      let values = try await store.tree().root.child("n")
      for number in 1..<1 + values.childCount {
        let value = values.at(try Path("\(number)"))
        #expect(!value.isAbsent, "the commits have no gap")
      }
      return values.childCount
    }
    return (notes, commits)
  }

  /// Expects that a start refuses a folder, and that nothing is lost when losses are accepted.
  private func expectCorrected(_ folder: Folder, _ what: Comment) async throws {
    #expect(throws: StoreError.self, what) { try SQLiteStore(folder: folder.path) }
    let found = try await accept(folder)
    #expect(found.notes.isEmpty && found.commits == Int(Self.commits), what)
  }

  @Test func `an altered bit in the header of the log loses nothing`() async throws {
    var random = SeededGenerator(printingSeedFor: "LogCorrectionTests.header")
    let crashed = try await crash()
    for offset in 0..<32 {
      let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      let copy = try changed(crashed) { $0[offset] ^= mask }
      try await expectCorrected(copy, "byte \(offset), mask \(mask)")
    }
  }

  @Test func `an altered bit in a frame of the log loses nothing if the checksum shows which one`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "LogCorrectionTests.frame")
    let crashed = try await crash()
    let frames = frames(try log(crashed))
    // The low bytes of words, which have an effect on most of the checksum: the numbers of a frame, and its page.
    var offsets = [0, 1, 4, 5, 24, 25, 4_116]
    for _ in 0..<6 { offsets.append(24 + 4 * Int.random(in: 0..<1_024, using: &random)) }
    // The salts and the checksum of a frame. The next frame proves the checksum.
    for offset in offsets + [8, 15, 16, 23] {
      let frame = random.pick(frames.dropLast())
      let mask = UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      let copy = try changed(crashed) { $0[frame + offset] ^= mask }
      try await expectCorrected(copy, "frame at \(frame), byte \(offset), mask \(mask)")
    }
  }

  /// The frames behind a lost page may be those of a history that a loss of power has ended: they have the same salts and
  /// follow each other, also where a later one has the lost page.
  @Test func `a lost page ends the log before its transaction, whatever follows`() async throws {
    let crashed = try await crash()
    let data = try log(crashed)
    let frames = frames(data)
    let replaced = frames.dropFirst().filter { frame in
      frames.contains { $0 > frame && word(data, $0) == word(data, frame) }
    }
    let others = frames.dropFirst().filter { !replaced.contains($0) }
    for frame in [others.first, replaced.first, replaced.dropFirst(replaced.count / 2).first] {
      let frame = try #require(frame)
      // A later page is lost as well, which makes no difference.
      for also in [nil, frames.last { $0 > frame }] {
        let before = frames.filter { $0 < frame && word(data, $0 + 4) > 0 }.count
        let copy = try changed(crashed) { data in
          for start in [frame, also].compactMap(\.self) {
            for offset in start + 1_024..<start + 2_048 { data[offset] ^= 0xFF }
          }
        }
        let found = try await accept(copy)
        #expect(!found.notes.isEmpty && found.commits < Int(Self.commits))
        #expect(found.commits <= before, "a transaction has one commit at most")
      }
    }
  }

  @Test func `a frame that was made invalid after an error of the disk stays invalid`() async throws
  {
    let crashed = try await crash()
    let data = try log(crashed)
    let frames = frames(data)
    let last = try #require(frames.last)
    let copy = try changed(crashed) { $0.resetBytes(in: last..<last + 24) }
    #expect(try await accept(copy).commits == Int(Self.commits) - 1)
  }

  @Test func `an intact log stays as it is, with an unfinished transaction at its end`()
    async throws
  {
    let crashed = try await crash()
    let copy = try changed(crashed) { data in
      var frame = data.suffix(Self.frameBytes)
      frame.replaceSubrange(frame.startIndex + 4..<frame.startIndex + 8, with: [0, 0, 0, 0])
      data.append(frame)
      data.append(frame.prefix(3_000))
    }
    for folder in [crashed, copy] {
      let before = try log(folder)
      #expect(try !LogCorrection.run(database: folder.database))
      #expect(try log(folder) == before)
    }
  }

  @Test(arguments: [false, true])
  func `an altered bit is found by the checksum, in both orders of bytes`(isBigEndian: Bool) {
    var random = SeededGenerator(printingSeedFor: "LogCorrectionTests.sum")
    func sum(_ bytes: [UInt8], after before: LogSum) -> LogSum {
      var sum = before
      bytes.withUnsafeBytes { sum.add($0) }
      return sum
    }
    for round in 0..<40 {
      let before = sum(random.bytes(8), after: LogSum(isBigEndian: isBigEndian))
      let bytes = random.bytes(64)
      let after = sum(bytes, after: before)
      var altered = bytes
      // The highest bit of a word changes one bit of each half of the checksum, as that of some other words does.
      let isHighest = round % 4 == 0
      let word = 4 * Int.random(in: 0..<16, using: &random)
      let place = isHighest ? 3 : Int.random(in: 0..<2, using: &random)
      let offset = word + (isBigEndian ? 3 - place : place)
      let mask = isHighest ? 0x80 : UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      altered[offset] ^= mask
      let bit = sum(altered, after: before).changedBit(of: altered, to: after)
      #expect(bit?.offset == (isHighest ? nil : offset) && bit?.mask == (isHighest ? nil : mask))
      var rest = after
      rest.remove(bytes)
      #expect(rest.stored == before.stored)
      let link = before.bytes(to: after)
      #expect(sum(link, after: before).stored == after.stored)
    }
  }
}
