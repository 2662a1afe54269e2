/// A value that a client sent: a node, and the locations in it that the server resolves.
public struct WriteValue: Sendable {
  /// The value; absent at the locations of server values.
  public var node: Node
  /// The server values in it.
  public var serverValues: [LocatedServerValue]

  /// Creates a value without server values.
  public init(_ node: Node) {
    self.node = node
    serverValues = []
  }

  /// Creates a value with server values.
  ///
  /// - Parameter serverValues: at most one value and one priority for each path, at which `node` is
  ///   absent.
  public init(_ node: Node, serverValues: [LocatedServerValue]) {
    self.node = node
    self.serverValues = serverValues
  }
}

extension Node {
  /// Reads JSON text that holds no server values.
  ///
  /// - Throws: `TreeError` with the offset of the byte where the text goes wrong.
  public init(json text: String, limits: Limits = Limits()) throws(TreeError) {
    let value = try WriteValue(json: text, limits: limits)
    guard value.serverValues.isEmpty else {
      throw .invalidData("server values are not allowed here")
    }
    self = value.node
  }
}

extension WriteValue {
  /// Reads JSON text.
  ///
  /// - Throws: `TreeError` with the offset of the byte where the text goes wrong.
  public init(json text: String, limits: Limits = Limits()) throws(TreeError) {
    let result = text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try WriteValue(json: bytes, limits: limits) }
    }
    self = try result.get()
  }

  /// Reads JSON bytes.
  ///
  /// - Parameter pause: called often while the text is long.
  /// - Throws: `TreeError` with the offset of the byte where the text goes wrong.
  public init(
    json bytes: UnsafeRawBufferPointer, limits: Limits = Limits(),
    pausing pause: DecodingPause = .none
  ) throws(TreeError) {
    try limits.checkWrite(bytes: bytes.count)
    var reader = JSONReader(bytes, limits: limits, pausing: pause)
    self = try reader.readNode()
    try reader.readEnd()
  }
}
