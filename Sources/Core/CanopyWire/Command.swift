public import CanopyTree

/// One verb of the line protocol, defined once: the decoder, the check of the number of arguments,
/// HELP, the metrics and the protocol reference all use `Command.all`.
///
/// A class, because each request looks for its command, and a copy would count the references of all its texts.
public final class Command: Sendable {
  /// A group of verbs, by their subject.
  public enum Group: String, Sendable, CaseIterable {
    /// The connection and the account.
    case session
    /// The posts, comments and stars.
    case blog
    /// The database below the blog.
    case tree
    /// The server, for its administrator.
    case administration
  }

  /// The verb, in capitals.
  public let verb: String
  /// The group in which HELP lists it.
  public let group: Group
  /// The names of the required arguments.
  public let required: [String]
  /// The names of the optional arguments.
  public let optional: [String]
  /// A short description for HELP.
  public let summary: String
  /// The reply to a successful request, in Markdown, for the protocol reference.
  public let reply: String

  let read: @Sendable (inout Arguments) throws(WireError) -> Request

  init(
    _ verb: String, _ group: Group, _ required: [String], optional: [String] = [],
    _ summary: String, reply: String,
    read: @escaping @Sendable (inout Arguments) throws(WireError) -> Request
  ) {
    self.verb = verb
    self.group = group
    self.required = required
    self.optional = optional
    self.summary = summary
    self.reply = reply
    self.read = read
  }

  /// All verbs of the server, in the order of HELP.
  public static let all: [Command] = session + account + blog + tree + administration

  /// The verb with its arguments: `COMMENTS id [page]`.
  public var usage: String {
    ([verb] + required + optional.map { "[\($0)]" }).joined(separator: " ")
  }

  func checkCount(_ count: Int) throws(WireError) {
    let most = required.count + optional.count
    guard count < required.count || count > most else { return }
    let hint = "put text with spaces in double quotes"
    throw WireError(
      .badRequest, "usage: \(usage)" + (count > most && most > 0 ? " (\(hint))" : ""))
  }
}

extension Request {
  /// The first word of a line, as a key of the table: its letters are capitals.
  private struct Word: Equatable {
    var high: UInt64 = 0
    var low: UInt64 = 0
    /// The number of bytes, which distinguishes a NUL in the word from padding.
    let count: Int

    /// Creates the key of a word in any case; nil if it is longer than any verb.
    init?(_ word: UnsafeRawBufferPointer) {
      guard word.count <= 16 else { return nil }
      count = word.count
      for (i, byte) in word.enumerated() {
        let isLower = byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")
        let capital = UInt64(isLower ? byte - 32 : byte)
        if i < 8 { high = high << 8 | capital } else { low = low << 8 | capital }
      }
    }

    init?(_ text: String) {
      var text = text
      guard let word = text.withUTF8({ Word(UnsafeRawBufferPointer($0)) }) else { return nil }
      self = word
    }
  }

  /// The commands by their verbs: a hash table with few entries for its size. Each request looks into it, and the hash
  /// of a `Dictionary` would take about three hundred instructions.
  private struct CommandTable {
    /// The number of entries, a power of two and several times that of the commands.
    private static let size = 256
    private var entries = [(word: Word, command: Command)?](repeating: nil, count: size)

    init(_ commands: [Command]) {
      precondition(commands.count < CommandTable.size / 2, "the table of the verbs is too small")
      for command in commands {
        guard let word = Word(command.verb) else { continue }
        var place = CommandTable.place(of: word)
        while entries[place] != nil { place = CommandTable.place(after: place) }
        entries[place] = (word, command)
      }
    }

    /// Returns the command of a word; nil if there is no such verb. O(1).
    subscript(word: Word) -> Command? {
      var place = CommandTable.place(of: word)
      while let entry = entries[place] {
        if entry.word == word { return entry.command }
        place = CommandTable.place(after: place)
      }
      return nil
    }

    private static func place(of word: Word) -> Int {
      // The golden ratio spreads words that differ in few bits.
      let hash = (word.high ^ word.low &* 31) &* 0x9E37_79B9_7F4A_7C15
      return Int(truncatingIfNeeded: hash >> 56)
    }

    private static func place(after place: Int) -> Int { (place + 1) & (size - 1) }
  }

  private static let table = CommandTable(Command.all)

  /// Returns the command with a verb, in any case.
  public static func command(_ verb: String) -> Command? {
    Word(verb).flatMap { table[$0] }
  }

  /// Decodes a line without its terminator.
  ///
  /// - Parameters:
  ///   - limits: the limits on strings and values; `LineDecoder` limits the line.
  ///   - pause: called often while a long value is decoded.
  /// - Throws: `WireError` for an unknown verb, a wrong number of arguments, or an invalid
  ///   argument.
  public init(
    line: UnsafeRawBufferPointer, limits: Limits = Limits(), pausing pause: DecodingPause = .none
  ) throws(WireError) {
    let start = line.firstIndex { $0 != UInt8(ascii: " ") } ?? line.count
    let end = line[start...].firstIndex(of: UInt8(ascii: " ")) ?? line.count
    let first = UnsafeRawBufferPointer(rebasing: line[start..<end])
    guard let word = Word(first), let command = Request.table[word] else {
      throw WireError(.unknownVerb, "\(Request.show(first)) is not a verb; HELP lists them")
    }
    var arguments = try Arguments(line, from: end, limits: limits, pausing: pause)
    try command.checkCount(arguments.count)
    self = try command.read(&arguments)
    if let sequence = arguments.atLeast, case .read(let read) = self {
      self = .read(.atLeast(sequence, read))
    }
  }

  /// The bytes after the first letter of a ONCE in which its name and its numbers end.
  private static let beginningBytesMax = 512

  /// Returns the identity of the write in a line that begins with ONCE, without looking at the write; nil for any other
  /// line. O(1) after the spaces in front.
  public static func origin(inBeginningOf line: UnsafeRawBufferPointer) -> WriteOrigin? {
    let start = line.firstIndex { $0 != UInt8(ascii: " ") } ?? line.count
    let head = UnsafeRawBufferPointer(rebasing: line[start...].prefix(beginningBytesMax))
    let end = head.firstIndex(of: UInt8(ascii: " ")) ?? head.count
    guard Word(UnsafeRawBufferPointer(rebasing: head[..<end])) == Word("ONCE"),
      var arguments = try? Arguments(head, from: end, limits: Limits(), pausing: .none)
    else { return nil }
    return try? arguments.origin()
  }

  /// Returns a printable, shortened form of a word for an error.
  private static func show(_ word: UnsafeRawBufferPointer) -> String {
    guard !word.isEmpty else { return "a line of spaces" }
    let isReadable = word.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    guard isReadable else { return "the first word" }
    return String(decoding: word.prefix(24), as: UTF8.self) + (word.count > 24 ? "…" : "")
  }
}
