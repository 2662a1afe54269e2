internal import CanopySystem
package import CanopyTree
internal import Foundation

/// A bounded queue of rows between the thread that reads the checkpoint and a thread that builds the tree.
///
/// A start spends nearly all its time with reading and building. Building takes more of it, so the reading thread makes
/// the nodes of the rows while enough batches wait.
///
/// `@unchecked Sendable`: threads access `waiting`, `empty`, `findsCopies`, `isComplete` and `result` only while they
/// hold the lock of `condition`, and only the reading thread uses `batch`.
package final class RowPipe: @unchecked Sendable {
  /// A batch of rows. One thread at a time has it.
  private final class Batch {
    /// The bytes of the location of each row in turn, followed by those of its value if it has no node.
    private var bytes: [UInt8] = []
    /// The end offsets of each location and each value.
    private var ends: [Int] = []
    /// The node of each row's value, absent for a value that is text.
    private var nodes: [Node] = []
    /// The number of bytes of all locations and all values.
    private(set) var size = 0
    /// Whether the values become nodes here, as far as possible.
    private(set) var isPacking = false

    /// Makes room for some bytes, so that no growth copies them.
    init(bytes capacity: Int) {
      bytes.reserveCapacity(capacity)
    }

    var rowCount: Int { nodes.count }

    /// Removes all rows. The memory stays for the next ones.
    func begin(isPacking: Bool) {
      bytes.removeAll(keepingCapacity: true)
      ends.removeAll(keepingCapacity: true)
      nodes.removeAll(keepingCapacity: true)
      size = 0
      self.isPacking = isPacking
    }

    func append(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
      size += location.count + value.count
      bytes.append(contentsOf: location)
      ends.append(bytes.count)
      let node = isPacking ? TreeBuilder.packedNode(json: value) : nil
      if node == nil { bytes.append(contentsOf: value) }
      nodes.append(node ?? .absent)
      ends.append(bytes.count)
    }

    /// Adds the rows to a tree. Call once.
    func add(to builder: inout TreeBuilder) throws(TreeError) {
      let result = bytes.withUnsafeBytes { bytes in
        Result { () throws(TreeError) in
          var start = 0
          for i in nodes.indices {
            let (middle, end) = (ends[2 * i], ends[2 * i + 1])
            let location = UnsafeRawBufferPointer(rebasing: bytes[start..<middle])
            start = end
            if nodes[i].isAbsent {
              let json = UnsafeRawBufferPointer(rebasing: bytes[middle..<end])
              try builder.add(json: json, at: location)
            } else {
              var node = Node.absent
              swap(&node, &nodes[i])
              try builder.add(node, at: location)
            }
          }
        }
      }
      try result.get()
    }
  }

  /// The number of bytes from which on a batch is passed to the builder.
  private let batchBytes: Int
  /// The maximum number of waiting batches.
  private let batchesMax: Int
  private let condition = NSCondition()
  private var waiting: [Batch] = []
  /// Batches whose memory is used again.
  private var empty: [Batch] = []
  /// Whether the last rows were mostly copies of earlier ones.
  private var findsCopies = false
  private var isComplete = false
  private var result: Result<Node, TreeError>?
  /// The batch that is being filled. Only the reading thread uses it.
  private var batch: Batch

  private let indexes: IndexPlan

  /// Creates a pipe and starts the building thread.
  ///
  /// - Parameter indexes: the indexes that the tree keeps.
  package init(indexes: IndexPlan = IndexPlan(), batchBytes: Int = 256 * 1024, batchesMax: Int = 4)
  {
    self.indexes = indexes
    self.batchBytes = batchBytes
    self.batchesMax = max(1, batchesMax)
    batch = Batch(bytes: RowPipe.capacity(of: batchBytes))
    Thread.detachNewThread { [self] in build() }
  }

  /// Adds a row. Blocks while the maximum number of batches waits.
  ///
  /// - Returns: false if an earlier row was invalid, and the builder takes no more rows.
  package func add(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    batch.append(location, value)
    guard batch.size >= batchBytes else { return true }
    guard handOn() else { return false }
    // The nodes of the rows take a little more memory than their texts.
    if batch.isPacking { Allocator.growHeap(by: batchBytes / 2 * 3) }
    return true
  }

  /// Returns the tree of all rows. Call once, even if reading has failed: it ends the building thread.
  ///
  /// - Throws: `TreeError` if a row is invalid.
  package func finish() throws(TreeError) -> Node {
    _ = handOn()
    condition.lock()
    defer { condition.unlock() }
    isComplete = true
    condition.broadcast()
    while true {
      if let result { return try result.get() }
      condition.wait()
    }
  }

  private func handOn() -> Bool {
    condition.lock()
    defer { condition.unlock() }
    while waiting.count >= batchesMax, result == nil { condition.wait() }
    waiting.append(batch)
    batch = empty.popLast() ?? Batch(bytes: RowPipe.capacity(of: batchBytes))
    // The thread that has less to do makes the nodes. Those of copies would be made in vain.
    batch.begin(isPacking: waiting.count > batchesMax / 2 && !findsCopies)
    condition.broadcast()
    return result == nil
  }

  /// The room of a batch: most rows that pass the bound fit.
  private static func capacity(of batchBytes: Int) -> Int { batchBytes + 8 * 1024 }

  /// Returns the next batch; nil after the last one.
  ///
  /// - Parameters:
  ///   - used: the batch before it.
  ///   - findsCopies: whether most rows of that batch were copies of earlier ones.
  private func next(after used: Batch?, findsCopies: Bool) -> Batch? {
    condition.lock()
    defer { condition.unlock() }
    self.findsCopies = findsCopies
    // The memory of a large row is not kept.
    if let used, used.size <= RowPipe.capacity(of: batchBytes) { empty.append(used) }
    while waiting.isEmpty, !isComplete { condition.wait() }
    guard !waiting.isEmpty else { return nil }
    defer { condition.broadcast() }
    return waiting.removeFirst()
  }

  private func build() {
    var builder = TreeBuilder(indexes: indexes)
    let result = Result { () throws(TreeError) in try addRows(to: &builder) }
    condition.lock()
    self.result = result
    condition.broadcast()
    condition.unlock()
    // Its memory is freed only now, while others go on with the tree.
    _ = consume builder
  }

  private func addRows(to builder: inout TreeBuilder) throws(TreeError) -> Node {
    var last: Batch?
    var findsCopies = false
    while let batch = next(after: last, findsCopies: findsCopies) {
      if !batch.isPacking, !findsCopies { Allocator.growHeap(by: batch.size / 2 * 3) }
      let before = builder.foundCopies
      try batch.add(to: &builder)
      findsCopies = builder.foundCopies - before > batch.rowCount / 2
      last = batch
    }
    return try builder.finish()
  }
}
