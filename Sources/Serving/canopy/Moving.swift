import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyIdentity
import CanopySession
import CanopySQLite
import CanopySystem
import CanopyTree
import CanopyWire
import Foundation

#if PostgreSQL
  import CanopyPostgres
#endif

/// A move of a whole server between a data folder and a database.
enum Moving {
  /// The files of a data folder with secrets, which a database keeps as well.
  private static let secretFiles = [IdentityKeys.fileName, AdministratorToken.fileName]

  /// Copies a data folder into a database.
  static func toDatabase(_ folder: String, url: String) async throws {
    try PostgresOption.check()
    #if PostgreSQL
      guard FileManager.default.fileExists(atPath: folder + "/canopy.sqlite") else {
        throw Failure(
          "\(folder) is not a Canopy data folder; name one with a file canopy.sqlite")
      }
      try await use(url) { database in
        let folders = NamespaceFolders(folder)
        let names = try [.default] + folders.names()
        // Before anything is written.
        try folders.checkNoneIsMissing()
        let prefix =
          PostgresNamespaces.movingPrefix + String(Composition.random(), radix: 16) + "/"
        try await database.list.removeRests()
        for name in names {
          guard try await !database.list.exists(name.text) else {
            throw Failure(
              "the database has data in the namespace \(name) already; name a database without data of Canopy"
            )
          }
        }
        do {
          for name in names {
            try await copy(folders.existingPath(of: name), name, to: prefix + name.text, database)
          }
          guard
            try await database.list.publish(
              names.map { (prefix + $0.text, $0.text) },
              listing: names.filter { $0 != .default }.map(\.text))
          else {
            throw Failure(
              "another program has written into the database meanwhile; name a database without data of Canopy"
            )
          }
        } catch {
          try? await database.list.discard(names.map { prefix + $0.text })
          throw error
        }
        Output.note("\(folder) is in the database; start nodes with canopy serve --postgres")
      }
    #endif
  }

  /// Copies a database into a data folder, which must be new or empty.
  static func toFolder(_ folder: String, url: String) async throws {
    try PostgresOption.check()
    #if PostgreSQL
      let files = FileManager.default
      let new = NewFolder(folder)
      try new.checkIsFree()
      let filling = new.workPath(
        for: "moving", number: Int(ProcessInfo.processInfo.processIdentifier))
      try await use(url, removing: [filling]) { database in
        guard try await database.list.exists(NamespaceName.default.text) else {
          throw Failure("the database has no data of Canopy; check the URL")
        }
        do {
          let names = try await database.list.names().compactMap { try? NamespaceName($0) }
          let folders = NamespaceFolders(filling)
          for name in [.default] + names.filter({ $0 != .default }) {
            try await copy(name, to: folders.path(of: name), database)
          }
          // A node that has started meanwhile may have written.
          try await database.checkIsFree()
          try new.fill(from: filling, willName: Interruption.complete)
        } catch {
          try? files.removeItem(atPath: filling)
          throw error
        }
        Output.note("the database is in \(folder); start it with canopy serve --data")
      }
    #endif
  }

  #if PostgreSQL
    /// A connection to the database of a move.
    private struct Database {
      static let node = "migrate"

      let url: String
      let list: PostgresNamespaces

      /// - Throws: `Failure` if a node serves the database.
      func checkIsFree() async throws {
        if try await list.isServed(butBy: Self.node) {
          throw Failure(
            "a node serves the database; stop all nodes, and wait 15 seconds after one that was killed"
          )
        }
      }

      func store(_ name: String) async throws -> PostgresStore {
        var configuration = PostgresStore.Configuration(
          url: url, node: Self.node, random: Composition.random)
        configuration.namespace = name
        return try await PostgresStore(configuration)
      }
    }

    /// Connects to a database, and runs `body`. Removes the folders if a signal ends the process meanwhile.
    private static func use(
      _ url: String, removing folders: [String] = [], _ body: (Database) async throws -> Void
    ) async throws {
      var configuration = PostgresStore.Configuration(
        url: url, node: Database.node, random: Composition.random)
      // The last transaction changes every row.
      configuration.replySeconds = 24 * 3_600
      let list = try await PostgresNamespaces(configuration)
      let database = Database(url: url, list: list)
      let result: Result<Void, any Error>
      do {
        try await database.checkIsFree()
        result = .success(
          try await Interruption.removingCopies(and: folders) { try await body(database) })
      } catch { result = .failure(error) }
      await list.close()
      try result.get()
    }

    /// Copies a folder into a namespace.
    private static func copy(
      _ folder: String, _ name: NamespaceName, to target: String, _ database: Database
    ) async throws {
      let source = try SQLiteStore.reading(folder)
      if let loss = source.losses.first { throw Failure(loss) }
      let copying = NamespaceCopy(name: name.text, source: source)
      var store = try await database.store(target)
      let contents: NamespaceCopy.Contents
      do {
        let sequence = try await source.tree().sequence
        let rules = try rules(
          in: folder, name, at: sequence, after: try await source.rulesRecord())
        contents = try await copying.run(to: store, rules: rules)
        for file in secretFiles {
          guard let secret = FileManager.default.contents(atPath: folder + "/" + file) else {
            continue
          }
          let text = file == AdministratorToken.fileName ? secret.trimmingNewline : Array(secret)
          _ = try await store.insertSecret(file, text)
        }
        await store.close()
        store = try await database.store(target)
        try await copying.check(store, contents, rules: rules)
      } catch {
        await store.close()
        throw error
      }
      await store.close()
      try source.close()
      Output.progress("", isDone: true)
      Output.note("namespace \(name): \(contents.summary)")
    }

    /// Copies a namespace into a folder.
    private static func copy(
      _ name: NamespaceName, to folder: String, _ database: Database
    ) async throws {
      let source = try await database.store(name.text)
      let copying = NamespaceCopy(name: name.text, source: source)
      do {
        // A store reads only the writes of its node.
        while try await !source.takeOverDisconnectWrites(countMax: .max, bytesMax: 1 << 20).isEmpty
        {}
        // The folder is written to the disk when it is opened again below.
        var configuration = SQLiteStore.Configuration()
        configuration.durability = .relaxed
        configuration.currentTime = Composition.now()
        let filled = try SQLiteStore(folder: folder, configuration: configuration)
        let contents = try await copying.run(to: filled, rules: nil)
        try filled.close()
        let rules = try await source.load(keeping: IndexPlan()).rules
        if let text = rules?.text {
          try write(RulesFile.bytes(of: text), to: folder + "/" + RulesKeeper.fileName)
        }
        for file in secretFiles {
          guard let secret = try await source.secret(file) else { continue }
          let end: [UInt8] = file == AdministratorToken.fileName ? [UInt8(ascii: "\n")] : []
          try write(secret + end, to: folder + "/" + file)
        }
        let copy = try SQLiteStore(folder: folder)
        if rules?.text != nil {
          try await copy.setRulesRecord(RulesRecord(.file, sequence: 0))
        }
        try await copying.check(copy, contents, rules: rules)
        try copy.close()
        Output.progress("", isDone: true)
        Output.note("namespace \(name): \(contents.summary)")
      } catch {
        await source.close()
        throw error
      }
      await source.close()
    }

    /// Returns the rules of a folder; nil for the initial rules.
    private static func rules(
      in folder: String, _ name: NamespaceName, at sequence: Int64, after record: RulesRecord?
    ) throws -> JournaledRules? {
      let keeper = try RulesKeeper(folder: folder, initial: name == .default ? .blog : .locked)
      let path = folder + "/" + RulesKeeper.fileName
      if keeper.isLost(after: record) { throw Failure(RulesFile.loss(of: path)) }
      guard let bytes = FileManager.default.contents(atPath: path) else { return nil }
      return JournaledRules(
        text: String(decoding: RulesFile(Array(bytes)).body, as: UTF8.self), sequence: sequence)
    }

    private static func write(_ bytes: [UInt8], to path: String) throws {
      do throws(FileError) { try AtomicFile.replace(path, with: bytes) } catch {
        throw Failure("\(error.path) cannot be written (\(error.operation): \(error.reason))")
      }
    }
  #endif
}

extension Data {
  /// The bytes without a line feed at the end.
  fileprivate var trimmingNewline: [UInt8] {
    last == UInt8(ascii: "\n") ? Array(dropLast()) : Array(self)
  }
}
