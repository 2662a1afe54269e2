package import CanopyTree
internal import Foundation

/// A bounded queue of rows between the thread that reads the checkpoint and a thread that builds the tree.
///
/// Reading and building take about the same time, and a start spends nearly all its time with them.
///
/// `@unchecked Sendable`: threads access `waiting`, `isComplete` and `result` only while they hold the lock of `condition`,
/// and only the reading thread uses `batch`.
package final class RowPipe: @unchecked Sendable {
  /// A batch of rows: the bytes of the location and the value of each row in turn.
  struct Batch {
    private(set) var bytes: [UInt8] = []
    /// The end offsets of each location and each value.
    private(set) var ends: [Int] = []

    mutating func append(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
      bytes.append(contentsOf: location)
      ends.append(bytes.count)
      bytes.append(contentsOf: value)
      ends.append(bytes.count)
    }
  }

  /// The number of bytes from which on a batch is passed to the builder.
  private let batchBytes: Int
  /// The maximum number of waiting batches.
  private let batchesMax: Int
  private let condition = NSCondition()
  private var waiting: [Batch] = []
  private var isComplete = false
  private var result: Result<Node, TreeError>?
  /// The batch that is being filled. Only the reading thread uses it.
  private var batch = Batch()

  private let indexes: IndexPlan

  /// Creates a pipe and starts the building thread.
  ///
  /// - Parameter indexes: the indexes that the tree keeps.
  package init(indexes: IndexPlan = IndexPlan(), batchBytes: Int = 256 * 1024, batchesMax: Int = 4)
  {
    self.indexes = indexes
    self.batchBytes = batchBytes
    self.batchesMax = max(1, batchesMax)
    Thread.detachNewThread { [self] in build() }
  }

  /// Adds a row. Blocks while the maximum number of batches waits.
  ///
  /// - Returns: false if an earlier row was invalid, and the builder takes no more rows.
  package func add(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    batch.append(location, value)
    return batch.bytes.count < batchBytes || handOn()
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
    batch = Batch()
    condition.broadcast()
    return result == nil
  }

  /// Returns the next batch; nil after the last one.
  private func next() -> Batch? {
    condition.lock()
    defer { condition.unlock() }
    while waiting.isEmpty, !isComplete { condition.wait() }
    guard !waiting.isEmpty else { return nil }
    defer { condition.broadcast() }
    return waiting.removeFirst()
  }

  private func build() {
    let result = Result { () throws(TreeError) in try buildTree() }
    condition.lock()
    self.result = result
    condition.broadcast()
    condition.unlock()
  }

  private func buildTree() throws(TreeError) -> Node {
    var builder = TreeBuilder(indexes: indexes)
    while let batch = next() {
      let added = batch.bytes.withUnsafeBytes { bytes in
        Result { () throws(TreeError) in
          var start = 0
          for i in stride(from: 0, to: batch.ends.count, by: 2) {
            let (middle, end) = (batch.ends[i], batch.ends[i + 1])
            try builder.add(
              json: UnsafeRawBufferPointer(rebasing: bytes[middle..<end]),
              at: UnsafeRawBufferPointer(rebasing: bytes[start..<middle]))
            start = end
          }
        }
      }
      try added.get()
    }
    return try builder.finish()
  }
}
