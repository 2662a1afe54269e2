internal import CanopyLineServer
internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// The line protocol.
extension FuzzedDecoder {
  /// The lines of a client. The first byte of an input is the size of the pieces in which the rest comes.
  static let lines = FuzzedDecoder(
    name: "lines",
    sources: ["Core/CanopyWire/LineDecoder.swift", "Serving/CanopyLineServer/LineInput.swift"]
  ) { input in
    guard let first = input.first else { return false }
    let bytes = Array(input.dropFirst())
    let whole = try Lines(bytes, pieceBytes: max(1, bytes.count))
    let pieces = try Lines(bytes, pieceBytes: 1 + Int(first) % 7)
    try expect(whole == pieces, "the lines depend on the pieces: \(bytes.shown)")
    try expect(
      try Lines(input: bytes, pieceBytes: 1 + Int(first) % 7)
        == Lines(input: bytes, pieceBytes: max(1, bytes.count)),
      "the lines of a connection depend on the pieces: \(bytes.shown)")
    return !whole.lines.isEmpty
  }

  /// A request, in a line without its end.
  static let requests = FuzzedDecoder(
    name: "requests",
    sources: [
      "Core/CanopyWire/AccountVerbs.swift", "Core/CanopyWire/AdministrationVerbs.swift",
      "Core/CanopyWire/Arguments+Tree.swift", "Core/CanopyWire/Arguments.swift",
      "Core/CanopyWire/BlogVerbs.swift", "Core/CanopyWire/Command.swift",
      "Core/CanopyWire/ForeignProtocol.swift", "Core/CanopyWire/Options+Administration.swift",
      "Core/CanopyWire/Options.swift", "Core/CanopyWire/SessionVerbs.swift",
      "Core/CanopyWire/TreeVerbs.swift", "Core/CanopyTree/Query/Query+Options.swift",
    ]
  ) { input in
    if let other = input.withUnsafeBytes({ ForeignProtocol(line: $0) }) {
      try checkSentence(other.error, of: input)
    }
    switch request(input) {
    case .failure(let error):
      try checkSentence(error, of: input)
      return false
    case .success(.write(.tree(let write))), .success(.write(.once(_, let write))):
      try checkRepetition(of: write)
    case .success(.connection(.onDisconnect(let write, let text))):
      // A later process decodes the text that this one has kept.
      let line = Array(("ONDISCONNECT " + text).utf8)
      guard case .success(.connection(.onDisconnect(let again, _))) = request(line, .none)
      else { throw Finding(description: "the text of an on-disconnect write is refused: \(text)") }
      try expect(isSame(write, again), "the text of an on-disconnect write differs: \(text)")
    case .success: break
    }
    return true
  }

  /// A line of the server, as clients read it.
  static let serverLines = FuzzedDecoder(
    name: "server-lines",
    sources: ["Core/CanopyWire/ServerLine.swift", "Core/CanopyWire/JSONMembers.swift"]
  ) { input in
    guard let line = try? input.withUnsafeBytes({ try ServerLine($0) }) else { return false }
    var output = JSONOutput()
    switch line {
    case .success(let json):
      ReplyLine.success(to: &output) { output in json.withUnsafeBytes { output.append($0) } }
    case .failure(let error): ReplyLine.failure(error, to: &output)
    case .event(let event):
      EventLine.begin(event.subscription, to: &output)
      switch event.change {
      case .put(let puts): EventLine.patch(puts, event.sequence, to: &output)
      case .cancel(let code): EventLine.cancel(code, to: &output)
      }
    }
    output.truncate(to: output.count - 2)
    let again = try? output.withBytes { try ServerLine($0) }
    switch (line, again) {
    case (.success(let a), .success(let b)?): try expect(a == b, "a reply differs: \(output.text)")
    case (.failure(let a), .failure(let b)?):
      // Where an unknown reason was left out, or a space has taken the place of an invisible character, the sentence
      // may begin like a reason.
      let mayLoseReason = a.reason == nil && a.sentence.utf8.first == UInt8(ascii: "[")
      let isSame = a.reason == b.reason && a.text.hasSameBytes(as: b.text)
      try expect(
        a.code == b.code && (isSame || mayLoseReason), "an error differs: \(output.text)")
    case (.event(let a), .event(let b)?):
      try expect(
        a.subscription == b.subscription && a.sequence == b.sequence,
        "an event differs: \(output.text)")
      switch (a.change, b.change) {
      case (.put(let a), .put(let b)): try expect(a == b, "a change differs: \(output.text)")
      case (.cancel(let a), .cancel(let b)): try expect(a == b, "a code differs: \(output.text)")
      default: throw Finding(description: "an event differs: \(output.text)")
      }
    default: throw Finding(description: "the line is refused when it is read again: \(output.text)")
    }
    return true
  }

  private static func request(
    _ line: [UInt8], _ limits: Limits = Limits()
  ) -> Result<Request, WireError> {
    line.withUnsafeBytes { bytes in
      Result { () throws(WireError) in try Request(line: bytes, limits: limits) }
    }
  }

  /// Checks that an error is one printable line of bounded length.
  private static func checkSentence(_ error: WireError, of input: [UInt8]) throws(Finding) {
    let isPrintable = error.sentence.unicodeScalars.allSatisfy {
      switch $0.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator: false
      default: true
      }
    }
    try expect(
      isPrintable && !error.sentence.isEmpty && error.sentence.utf8.count <= 2_100,
      "the error is not one printable line: \(input.shown)")
  }

  /// Encodes a write as a request, decodes it and compares.
  private static func checkRepetition(of write: TreeWrite) throws(Finding) {
    var output = JSONOutput()
    switch write {
    case .set(let location, let value), .compareAndSet(let location, _, let value):
      output.append("SET ")
      output.append(string: location.text)
      output.append(" ")
      output.append(value)
      guard !value.node.isAbsent || !value.serverValues.isEmpty else { return }
      guard case .success(.write(.tree(.set(let again, let other)))) = request(output.bytes),
        again == location, value.isSame(as: other)
      else { throw Finding(description: "a write differs: \(output.text)") }
    case .update(let path, let changes):
      output.append("UPDATE ")
      output.append(string: path.text)
      output.append(" ")
      output.append(changes)
      guard case .success(.write(.tree(.update(let again, let others)))) = request(output.bytes),
        again == path, isSame(changes, others)
      else { throw Finding(description: "an update differs: \(output.text)") }
    }
  }

  private static func isSame(_ a: DisconnectRequest, _ b: DisconnectRequest) -> Bool {
    switch (a, b) {
    case (.set(let location, let value), .set(let other, let otherValue)):
      location == other && value.isSame(as: otherValue)
    case (.update(let path, let changes), .update(let other, let others)):
      path == other && isSame(changes, others)
    case (.cancel(let path), .cancel(let other)): path == other
    default: false
    }
  }

  private static func isSame(_ a: [Request.Update], _ b: [Request.Update]) -> Bool {
    a.count == b.count
      && zip(a, b).allSatisfy { $0.location == $1.location && $0.value.isSame(as: $1.value) }
  }
}

/// The lines of an input, and how it ended.
private struct Lines: Equatable {
  private static let lineBytesMax = 64

  private(set) var lines: [[UInt8]] = []
  private(set) var isTooLong = false

  /// Decodes an input that comes in pieces.
  init(_ bytes: [UInt8], pieceBytes: Int) throws(Finding) {
    var decoder = LineDecoder(lineBytesMax: Self.lineBytesMax)
    var rest = bytes[...]
    while !rest.isEmpty, !isTooLong {
      var piece = Array(rest.prefix(pieceBytes))
      rest = rest.dropFirst(pieceBytes)
      // The consumer stops after each second line, and takes the rest of the piece later.
      while !piece.isEmpty {
        let outcome = piece.withUnsafeBytes { piece in
          decoder.feed(piece) { line in
            lines.append(Array(line))
            return lines.count.isMultiple(of: 2)
          }
        }
        switch outcome {
        case .done: piece = []
        case .stopped(let consumed): piece.removeFirst(consumed)
        case .tooLong:
          piece = []
          isTooLong = true
        }
      }
      try expect(decoder.keptBytes <= Self.lineBytesMax + 1, "the decoder keeps too many bytes")
    }
    let longest = lines.map(\.count).max() ?? 0
    try expect(longest <= Self.lineBytesMax, "a line is too long")
  }

  /// Decodes the input of a connection, which ends at a line that is not of the protocol.
  init(input bytes: [UInt8], pieceBytes: Int) throws(Finding) {
    let input = LineInput(lineBytesMax: Self.lineBytesMax)
    var rest = bytes[...]
    while !rest.isEmpty, !isTooLong {
      var piece: ByteBuffer? = ByteBuffer(bytes: rest.prefix(pieceBytes))
      rest = rest.dropFirst(pieceBytes)
      while let bytes = piece, !isTooLong {
        let invalid = input.decode(bytes) { line in
          lines.append(Array(line))
          return !lines.count.isMultiple(of: 2)
        }
        isTooLong = invalid != nil
        piece = input.takeBacklog()
      }
      try expect(input.byteCount <= 4 * Self.lineBytesMax, "the input keeps too many bytes")
    }
    input.drop()
  }
}
