import CanopyTesting
import Foundation
import Testing

/// Callbacks that would use state outside its actor: the compiler refuses them, and accepts the same code where the
/// library runs it on the actor. `IsolationTests` runs the accepted forms.
@Suite(.timeLimit(.minutes(20))) struct RefusedCodeTests {
  /// Declarations for the samples.
  private static let common = """
    import CanopyClient

    final class Model { var title = "" }

    """

  /// Files of an application. A line that the compiler must refuse ends in `// refused: ` and a part of the reason.
  private static let files = [
    """
    import CanopyClient
    func capturesAnObject(_ place: DatabaseReference, _ model: Model) {
      place.observe(.value, with: { model.title = $0.key })  // refused: non-Sendable type 'Model'
      place.observeSingleEvent(
        of: .value,
        with: { _ in model.title = "" })  // refused: non-Sendable type 'Model'
      place.getData { _, _ in model.title = "" }  // refused: non-Sendable type 'Model'
      place.setValue(1) { _, _ in model.title = "" }  // refused: non-Sendable type 'Model'
      place.onDisconnectRemoveValue { _, _ in model.title = "" }  // refused: non-Sendable type 'Model'
    }
    """,
    """
    import CanopyClient
    func capturesAVariable(_ place: DatabaseReference) {
      var count = 0
      place.removeValue { _, _ in count += 1 }  // refused: captured var 'count'
      place.updateChildValues([:]) { _, _ in count += 1 }  // refused: captured var 'count'
      place.setPriority(1) { _, _ in count += 1 }  // refused: captured var 'count'
      Auth.auth().addStateDidChangeListener { _, _ in count += 1 }  // refused: captured var 'count'
      print(count)
    }
    """,
    """
    import CanopyClient
    actor Counter {
      var count = 0
      func transact(_ place: DatabaseReference) {
        place.runTransactionBlock { data in
          self.count += 1  // refused: actor-isolated property 'count'
          return .success(withValue: data)
        }
      }
      nonisolated func observe(_ place: DatabaseReference) {
        place.observe(.value, with: { _ in self.count += 1 })  // refused: actor-isolated property 'count'
      }
    }
    """,
    """
    import CanopyClient
    @MainActor final class Screen {
      var shown = ""
      func transact(_ place: DatabaseReference) {
        place.runTransactionBlock { data in
          self.shown = ""  // refused: main actor-isolated property 'shown'
          return .success(withValue: data)
        }
      }
      nonisolated func observe(_ place: DatabaseReference) {
        place.observe(.value, with: { _ in self.shown = "" })  // refused: main actor-isolated property 'shown'
      }
      func other(_ place: DatabaseReference) {
        let body: @Sendable () -> Void = {
          place.observe(.value, with: { _ in self.shown = "" })  // refused: main actor-isolated property 'shown'
        }
        body()
      }
    }
    """,
    """
    import CanopyClient
    @MainActor final class AcceptedScreen {
      var shown = ""
      func appear(_ place: DatabaseReference, _ model: Model) {
        place.observe(.value, with: { self.shown = $0.key }) { _ in self.shown = "" }
        place.observe(.childAdded, andPreviousSiblingKeyWith: { _, key in self.shown = key ?? "" })
        place.setValue(1) { _, _ in self.shown = "" }
        place.setValue(1, andPriority: 2) { _, _ in model.title = "" }
        place.updateChildValues(["a": 1]) { _, _ in model.title = "" }
        place.getData { _, _ in self.shown = "" }
        place.runTransactionBlock({ .success(withValue: $0) }) { _, _, _ in self.shown = "" }
        Auth.auth().addStateDidChangeListener { _, _ in self.shown = "" }
      }
    }

    actor AcceptedCounter {
      var count = 0
      func watch(_ place: DatabaseReference) {
        place.observe(.value, with: { _ in self.count += 1 })
        place.removeValue { _, _ in self.count += 1 }
        place.child("a").onDisconnectSetValue(1) { _, _ in self.count += 1 }
      }
    }
    """,
  ]

  /// Returns the errors of the compiler, as `file:line: text`.
  private static func errors(of files: [String]) throws -> [String] {
    let temporary = try TemporaryFolder()
    defer { withExtendedLifetime(temporary) {} }
    let folder = temporary.url
    // As one module, so that the compiler does not stop after the first file with errors.
    var arguments = [
      "swiftc", "-typecheck", "-whole-module-optimization", "-swift-version", "6",
      "-diagnostic-style", "llvm",
    ]
    for (number, file) in files.enumerated() {
      let path = folder.appending(path: "file\(number).swift").path
      try Data(file.utf8).write(to: URL(filePath: path))
      arguments.append(path)
    }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = arguments + searchArguments()
    let output = folder.appending(path: "errors")
    try Data().write(to: output)
    process.standardError = try FileHandle(forWritingTo: output)
    try process.run()
    process.waitUntilExit()
    let text = String(decoding: try Data(contentsOf: output), as: UTF8.self)
    return text.split(separator: "\n").filter { $0.contains("error: ") }.map { line in
      String(line).replacing(folder.path + "/", with: "")
    }
  }

  /// Returns the arguments by which the compiler finds the library as it was built beside this test.
  private static func searchArguments() -> [String] {
    let built = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
      .deletingLastPathComponent()
    var arguments = ["-I", built.appending(path: "Modules").path]
    // The modules of C have maps, which the build has made or a package brings.
    func add(_ folder: URL) {
      let map = folder.appending(path: "module.modulemap").path
      guard FileManager.default.fileExists(atPath: map) else { return }
      arguments += ["-Xcc", "-fmodule-map-file=\(map)", "-Xcc", "-I\(folder.path)"]
    }
    func contents(_ folder: URL) -> [URL] {
      let names = try? FileManager.default.contentsOfDirectory(atPath: folder.path)
      return (names ?? []).sorted().map { folder.appending(path: $0) }
    }
    // The build folder may have another name than `.build`.
    func checkouts(of folder: URL) -> URL? {
      let found = folder.appending(path: "checkouts")
      if FileManager.default.fileExists(atPath: found.path) { return found }
      return folder.path == "/" ? nil : checkouts(of: folder.deletingLastPathComponent())
    }
    for folder in contents(built) where folder.lastPathComponent.hasSuffix(".build") {
      add(folder)
    }
    add(Checkout.root.appending(path: "Sources/Core/CPrefetch"))
    for package in checkouts(of: built).map(contents) ?? [] {
      for target in contents(package.appending(path: "Sources")) {
        arguments += ["-Xcc", "-I\(target.appending(path: "include").path)"]
        add(target)
        add(target.appending(path: "include"))
      }
    }
    return arguments
  }

  @Test func `the compiler refuses callbacks that use state outside its actor, and no others`()
    throws
  {
    let errors = try Self.errors(of: [Self.common] + Self.files)
    var expected = 0
    var found = 0
    for (number, file) in Self.files.enumerated() {
      for (line, text) in file.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
      {
        guard let reason = text.components(separatedBy: "// refused: ").dropFirst().first else {
          continue
        }
        expected += 1
        let place = "file\(number + 1).swift:\(line + 1):"
        let isRefused = errors.contains { $0.hasPrefix(place) && $0.contains(reason) }
        #expect(isRefused, "\(place) \(text)")
        if isRefused { found += 1 }
      }
    }
    #expect(expected == 14 && found == expected)
    #expect(errors.count == expected, "\(errors.joined(separator: "\n"))")
  }
}
