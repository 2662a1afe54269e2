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
