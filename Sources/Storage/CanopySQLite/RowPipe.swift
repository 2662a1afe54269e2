internal import CanopyTree
internal import Foundation

/// Hands the rows of a checkpoint from the thread that reads them to one that makes a tree of them, in
/// batches: the two take about as long, and starting up is nothing else.
///
/// `@unchecked Sendable`: what is shared is touched with the condition's lock held.
final class RowPipe: @unchecked Sendable {
  /// Rows, the location and the value of each one after the other.
  struct Batch {
    private(set) var bytes: [UInt8] = []
    /// Where each location and each value ends.
    private(set) var ends: [Int] = []

    mutating func append(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
      bytes.append(contentsOf: location)
      ends.append(bytes.count)
      bytes.append(contentsOf: value)
      ends.append(bytes.count)
    }
  }

  /// Bytes from which on a batch is handed on.
  private let batchBytes: Int
  /// Batches that wait at most.
  private let batchesMax: Int
  private let condition = NSCondition()
  private var waiting: [Batch] = []
  private var isComplete = false
  private var result: Result<Node, TreeError>?
  /// Of the reading thread alone.
  private var batch = Batch()

  private let indexes: IndexPlan

  /// - Parameter indexes: those that the tree is to have.
  init(indexes: IndexPlan = IndexPlan(), batchBytes: Int = 256 * 1024, batchesMax: Int = 4) {
    self.indexes = indexes
    self.batchBytes = batchBytes
    self.batchesMax = max(1, batchesMax)
    Thread.detachNewThread { [self] in build() }
  }

  /// Adds a row. Waits while too much waits to be built.
  ///
  /// - Returns: false when a row before was refused, and no more are wanted.
  func add(_ location: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    batch.append(location, value)
    return batch.bytes.count < batchBytes || handOn()
  }

  /// The tree of all rows; to be called once, also when the reading has failed.
  ///
  /// - Throws: `TreeError` when there is a row that makes no sense.
  func finish() throws(TreeError) -> Node {
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

  /// The next rows; nil when there are no more.
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
