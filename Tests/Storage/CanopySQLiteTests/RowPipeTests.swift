import CanopyRows
import CanopyTree
import Testing

@testable import CanopySQLite

/// The tree of rows that pass through the pipe in batches of any size.
struct RowPipeTests {
  private func add(_ location: String, _ json: String, to pipe: RowPipe) -> Bool {
    Array(location.utf8).withUnsafeBytes { location in
      Array(json.utf8).withUnsafeBytes { pipe.add(location, $0) }
    }
  }

  @Test(arguments: [1, 100, 1_000_000], [1, 3])
  func `all rows arrive in order`(batchBytes: Int, batchesMax: Int) throws {
    let pipe = RowPipe(batchBytes: batchBytes, batchesMax: batchesMax)
    for i in 100..<1_000 { #expect(add("a/k\(i)", #"{"n":\#(i)}"#, to: pipe)) }
    let root = try pipe.finish()
    #expect(root.child("a").childCount == 900)
    var next: Int64 = 100
    root.child("a").forEachChild { key, child in
      defer { next += 1 }
      return key.text == "k\(next)" && child.child("n") == Node(next)
    }
    #expect(next == 1_000)
  }

  // With one waiting batch at most, the reading thread makes nodes as soon as it has handed on a batch. With many, it
  // makes none.
  @Test(arguments: [1, 100, 4_096, 1_000_000], [1, 2, 4, 1_000_000])
  func `the tree is the same, whichever thread makes the nodes`(
    batchBytes: Int, batchesMax: Int
  ) throws {
    let pipe = RowPipe(batchBytes: batchBytes, batchesMax: batchesMax)
    var expected = Node.absent
    for place in ["posts", "user-posts/ada"] {
      for number in 1_000..<1_600 {
        // Most are packed branches; some are numbers, some have fractions, and one is larger than most batches.
        let text = String(repeating: "t", count: number == 1_234 ? 20_000 : 20)
        let json =
          number % 50 == 0
          ? "\(number)" : #"{"n":\#(number)\#(number % 70 == 0 ? ".5" : ""),"t":"\#(text)"}"#
        let location = "\(place)/-OaBcDeFgHiJkLmN\(number)"
        #expect(add(location, json, to: pipe))
        expected.set(try Node(json: json), at: try Path(location))
      }
    }
    let root = try pipe.finish()
    #expect(root == expected)
    for number in [1_001, 1_233, 1_599] {
      let key = try Key("-OaBcDeFgHiJkLmN\(number)")
      let (post, copy) = (
        root.child("posts").child(key), root.child("user-posts").child("ada").child(key)
      )
      #expect(post.isIdentical(to: copy))
    }
  }

  @Test func `without rows, the tree is empty`() throws {
    #expect(try RowPipe().finish().isAbsent)
  }

  @Test func `after an invalid row no more are accepted, and the end throws the reason`() {
    let pipe = RowPipe(batchBytes: 1, batchesMax: 1)
    var added = 0
    while add("a/k\(10_000 + added)", added == 20 ? "{" : "1", to: pipe), added < 5_000 {
      added += 1
    }
    #expect(20..<5_000 ~= added)
    #expect(throws: TreeError.self) { try pipe.finish() }
  }
}
