@testable import CanopyTree

/// The result of reading a text as a value: a node with its server values, or an error.
enum Reading: Equatable {
  case value(Node, [LocatedServerValue])
  case failure(TreeError)

  /// Reads complete bytes.
  init(_ bytes: [UInt8], limits: Limits = Limits()) {
    self = bytes.withUnsafeBytes { bytes in
      do throws(TreeError) {
        return .init(try WriteValue(json: bytes, limits: limits))
      } catch {
        return .failure(error)
      }
    }
  }

  init(_ text: String) {
    self.init(Array(text.utf8))
  }

  /// Reads bytes in pieces of `size`.
  init(_ bytes: [UInt8], pieces size: Int, limits: Limits = Limits()) {
    var rest = bytes[...]
    var reader = JSONReader(
      source: { buffer in
        let piece = rest.prefix(min(size, buffer.count))
        rest = rest.dropFirst(piece.count)
        buffer.copyBytes(from: piece)
        return piece.count
      }, limits: limits)
    do throws(TreeError) {
      let value = try reader.readNode()
      try reader.readEnd()
      self = .init(value)
    } catch {
      self = .failure(error)
    }
  }

  private init(_ value: WriteValue) {
    self = .value(value.node, value.serverValues)
  }

  var node: Node? {
    if case .value(let node, _) = self { node } else { nil }
  }

  /// The offset of the error.
  var offset: Int? {
    if case .failure(.invalidJSON(_, let offset)) = self { offset } else { nil }
  }
}
