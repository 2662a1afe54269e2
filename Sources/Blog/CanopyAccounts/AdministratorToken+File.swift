extension AdministratorToken {
  /// The token in `folder`, made there if there is none yet.
  ///
  /// A new file has mode 0600 from its first moment; it is written under another name, reaches the
  /// disk, and only then gets its own name, so that a crash leaves either no token or a whole one.
  /// Blocks for a disk synchronisation when it makes one. One server at a time may use a folder,
  /// which is for the caller to see to.
  ///
  /// - Parameters:
  ///   - folder: the data folder, which must exist.
  ///   - random: where a new token comes from.
  /// - Throws: ``AccountError/administratorTokenUnusable(path:problem:)`` if the file is there but
  ///   malformed or open to others, or if the system refuses an operation. A file open to others
  ///   is not quietly closed: who has read it cannot be known.
  public static func loadOrCreate(
    in folder: String, random: RandomBytes = AccountEnvironment.live.random
  ) throws -> AdministratorToken {
    if let token = try load(from: folder) { return token }
    let token = SessionToken.make(random: random).text
    let path = path(in: folder)
    do {
      let temporary = path + ".new"
      // What a crash between the two steps may have left.
      try PrivateFile.removeIfPresent(temporary)
      try PrivateFile.create(temporary, content: Array((token + "\n").utf8))
      try PrivateFile.rename(temporary, to: path)
      try PrivateFile.synchronizeFolder(folder)
    } catch let problem as AdministratorTokenProblem {
      throw AccountError.administratorTokenUnusable(path: path, problem: problem)
    }
    guard let loaded = try load(from: folder) else {
      throw AccountError.administratorTokenUnusable(path: path, problem: .malformed)
    }
    return loaded
  }

  /// The token in `folder`, or nil if there is none: for a command on the same machine, which must
  /// not make one. Throws as ``loadOrCreate(in:random:)`` does.
  public static func load(from folder: String) throws -> AdministratorToken? {
    let path = path(in: folder)
    do {
      guard var content = try PrivateFile.read(path, bytesMax: SessionToken.characters + 1) else {
        return nil
      }
      if content.last == UInt8(ascii: "\n") { content.removeLast() }
      guard let token = AdministratorToken(String(decoding: content, as: UTF8.self)) else {
        throw AdministratorTokenProblem.malformed
      }
      return token
    } catch let problem as AdministratorTokenProblem {
      throw AccountError.administratorTokenUnusable(path: path, problem: problem)
    }
  }

  private static func path(in folder: String) -> String {
    folder.utf8.last == UInt8(ascii: "/") ? folder + fileName : folder + "/" + fileName
  }
}
