import CanopyTesting
import Foundation
import Testing

struct ScriptTests {
  /// The scripts that people run, without the parts of the Debian package.
  static let scripts =
    Repository.files(in: "Scripts").filter { !$0.hasPrefix(packaging) } + [".ci/run"]
  private static let packaging = "Scripts/packaging/"

  @Test(arguments: scripts)
  func `a script is executable, has a comment about its purpose, and stops at the first error`(
    path: String
  ) throws {
    let file = Repository.root.appending(path: path).path
    #expect(FileManager.default.isExecutableFile(atPath: file))
    let lines = try Repository.text(path).split(separator: "\n", omittingEmptySubsequences: false)
    try #require(lines.count > 4)
    #expect(lines[0] == "#!/usr/bin/env bash")
    #expect(lines[1].hasPrefix("# ") && lines[2].hasPrefix("# "))
    #expect(lines[3] == "set -euo pipefail")
  }

  /// The programs of the package have no bash: dpkg runs them by the shell of the system, and one is in Python.
  @Test(arguments: ["postinst", "prerm", "postrm", "manual"])
  func `a program of the package is executable, and stops at the first error`(name: String) throws {
    let path = Self.packaging + name
    let file = Repository.root.appending(path: path).path
    #expect(FileManager.default.isExecutableFile(atPath: file))
    let lines = try Repository.text(path).split(separator: "\n", omittingEmptySubsequences: false)
    try #require(lines.count > 4)
    if lines[0] == "#!/bin/sh" {
      #expect(lines[1].hasPrefix("# ") && lines[2] == "set -e")
    } else {
      #expect(lines[0] == "#!/usr/bin/env python3" && lines[1].hasPrefix("\"\"\""))
    }
  }

  @Test func `each setting of the package is an option of serve`() async throws {
    let help = try await Program.run(Program.canopy, ["help", "serve"])
    let text = try Repository.text(Self.packaging + "default")
    let settings = text.matches(of: /(?m)^#?(CANOPY_[A-Z_]+)=/).map { String($0.1) }
    #expect(settings.count >= 6)
    // All clients of the service are on its machine, also those behind a proxy.
    #expect(text.contains("\nCANOPY_WRITES_ON_THIS_MACHINE=limited\n"))
    for setting in settings {
      let option = "--" + setting.dropFirst("CANOPY_".count).lowercased().replacing("_", with: "-")
      #expect(help.output.contains("\(option) <"), "\(setting)")
    }
  }

  @Test func `continuous integration runs the check and nothing else`() throws {
    let commands = try Repository.text(".ci/run").split(separator: "\n").filter {
      !$0.hasPrefix("#")
    }
    #expect(
      commands == [
        "set -euo pipefail", #"cd "$(dirname "${BASH_SOURCE[0]}")/..""#, "exec ./Scripts/check",
      ])
  }
}

/// Scripts/dependencies on many kinds of machines, with stubs for the system's commands.
struct DependenciesScriptTests {
  private static let swift = "echo 'Swift version 6.2 (swift-6.2-RELEASE)'"

  /// A machine, which is a folder that is the whole PATH. `calls` lists the arguments of apt-get.
  private final class Machine {
    private let folder: TemporaryFolder

    /// - Parameters:
    ///   - swift: the commands of the compiler's stub; nil for no compiler.
    ///   - installed: the installed packages.
    ///   - hasLists: whether apt-get knows any package before an update.
    init(
      swift: String? = DependenciesScriptTests.swift, installed: [String], isRoot: Bool = true,
      hasSudo: Bool = false, hasLists: Bool = true, offers: Bool = true
    ) throws {
      folder = try TemporaryFolder()
      for tool in ["bash", "env", "sed", "touch"] {
        let real = ["/usr/bin/", "/bin/"].map { $0 + tool }
          .first { FileManager.default.isExecutableFile(atPath: $0) }
        try FileManager.default.createSymbolicLink(
          atPath: folder.file(tool), withDestinationPath: try #require(real))
      }
      try write("dpkg-query", #"[[ -e $HOME/${@: -1} ]] && printf installed"#)
      try write("id", "echo \(isRoot ? 0 : 1000)")
      // Like apt-get, the stub installs only packages in its lists, and only for root.
      try write(
        "apt-get",
        """
        echo "$*" >>"$HOME/calls"
        [[ $(id -u) == 0 ]] || exit 100
        if [[ $1 == update ]]; then touch "$HOME/lists"; exit 0; fi
        [[ -e $HOME/lists && \(offers) == true ]] || exit 100
        for word in "$@"; do [[ $word != *lib* ]] || touch "$HOME/$word"; done
        """)
      // The stub becomes root by replacing the command id.
      if hasSudo { try write("sudo", "shift; id() { echo 0; }; export -f id; \"$@\"") }
      if let swift { try write("swift", swift) }
      for name in installed + (hasLists ? ["lists"] : []) {
        try Data().write(to: folder.url.appending(path: name))
      }
    }

    private func write(_ name: String, _ body: String) throws {
      try Data("#!/usr/bin/env bash\n\(body)\n".utf8).write(to: folder.url.appending(path: name))
      try FileManager.default.setAttributes(
        [.posixPermissions: 0o755], ofItemAtPath: folder.file(name))
    }

    func run(_ packages: String...) async throws -> Program.Outcome {
      try await Program.run(
        Repository.root.appending(path: "Scripts/dependencies").path, packages,
        environment: ["PATH": folder.path, "HOME": folder.path])
    }

    var calls: [String] {
      let text = try? String(contentsOfFile: folder.file("calls"), encoding: .utf8)
      return (text ?? "").split(separator: "\n").map(String.init)
    }
  }

  private static let all = ["libsqlite3-dev", "libargon2-dev", "zlib1g-dev"]
  private static let install = "install --yes --no-install-recommends"

  @Test func `nothing happens if all packages are installed`() async throws {
    let machine = try Machine(installed: Self.all)
    let outcome = try await machine.run()
    #expect(outcome.status == 0)
    #expect(outcome.output + outcome.errors == "")
    #expect(machine.calls == [])
  }

  @Test func `root installs only missing packages, without an unnecessary update`()
    async throws
  {
    let machine = try Machine(installed: ["libsqlite3-dev", "zlib1g-dev"])
    let outcome = try await machine.run()
    #expect(outcome.status == 0, "\(outcome.errors)")
    #expect(outcome.output == "")
    #expect(machine.calls == ["\(Self.install) libargon2-dev"])
  }

  @Test func `further packages of the caller are installed too`() async throws {
    let machine = try Machine(installed: Self.all)
    #expect(try await machine.run("libmore").status == 0)
    #expect(machine.calls == ["\(Self.install) libmore"])
  }

  @Test func `package lists are fetched if apt-get does not know the packages`() async throws {
    let machine = try Machine(installed: [], hasLists: false)
    let outcome = try await machine.run()
    #expect(outcome.status == 0, "\(outcome.errors)")
    let install = "\(Self.install) libsqlite3-dev libargon2-dev zlib1g-dev"
    #expect(machine.calls == [install, "update", install])
  }

  @Test func `sudo is used if it needs no password`() async throws {
    let machine = try Machine(installed: [], isRoot: false, hasSudo: true)
    let outcome = try await machine.run()
    #expect(outcome.status == 0, "\(outcome.errors)")
    #expect(machine.calls == ["\(Self.install) libsqlite3-dev libargon2-dev zlib1g-dev"])
  }

  @Test func `a user without the right to install receives the exact command`() async throws {
    let machine = try Machine(installed: ["libargon2-dev", "zlib1g-dev"], isRoot: false)
    let outcome = try await machine.run()
    #expect(outcome.status == 1)
    #expect(outcome.errors.contains("apt-get update && apt-get install libsqlite3-dev\n"))
    #expect(machine.calls == [])
  }

  @Test func `the error names a package that is not available`() async throws {
    let machine = try Machine(installed: ["libsqlite3-dev", "zlib1g-dev"], offers: false)
    let outcome = try await machine.run()
    #expect(outcome.status == 1)
    #expect(outcome.errors.contains("libargon2-dev could not be installed"))
  }

  @Test(arguments: [
    (nil, "not installed"),
    ("echo 'Swift version 6.1.3 (swift-6.1.3-RELEASE)'", "Swift 6.1 is too old"),
    ("echo 'Apple Swift version 5.10 (swiftlang)'", "Swift 5.10 is too old"),
    ("exit 1", "cannot be read"),
  ])
  func `the error names a missing compiler and a compiler that is too old`(
    swift: String?, sentence: String
  ) async throws {
    let machine = try Machine(swift: swift, installed: Self.all)
    let outcome = try await machine.run()
    #expect(outcome.status == 1)
    #expect(outcome.errors.contains(sentence), "\(outcome.errors)")
    #expect(outcome.errors.contains("Swift 6.2 or newer"))
  }

  @Test(arguments: ["6.2", "6.3.1", "7.0", "10.1"])
  func `a newer compiler is accepted`(version: String) async throws {
    let machine = try Machine(
      swift: "echo 'Swift version \(version) (swift-\(version)-RELEASE)'", installed: Self.all)
    #expect(try await machine.run().status == 0)
  }
}
