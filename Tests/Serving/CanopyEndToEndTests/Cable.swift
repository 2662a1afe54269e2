import CanopyTesting
import Foundation

/// Two machines and the cable between them, which a test can cut. The machines are network namespaces, and the cable
/// is a pair of virtual interfaces. They are removed with the object.
final class Cable: Sendable {
  /// The address of the machine of the server.
  static let address = "10.77.0.1"
  private static let otherAddress = "10.77.0.2"
  /// A hardware address that no device has.
  private static let unusedAddress = "02:00:00:00:00:01"

  private let near: Namespace
  private let far: Namespace

  /// Whether this process may create network namespaces.
  static let isPossible: Bool = {
    let probe = Process()
    probe.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    probe.arguments = [
      "--net", "/bin/sh", "-c",
      "ip link add cable type veth peer name other && command -v nsenter >/dev/null",
    ]
    probe.standardOutput = FileHandle.nullDevice
    probe.standardError = FileHandle.nullDevice
    guard (try? probe.run()) != nil else { return false }
    probe.waitUntilExit()
    return probe.terminationStatus == 0
  }()

  init() async throws {
    near = try await Namespace()
    far = try await Namespace()
    try await near.ip("link set lo up")
    try await near.ip("link add cable type veth peer name cable netns \(far.pid)")
    try await near.ip("address add \(Self.address)/30 dev cable")
    try await far.ip("address add \(Self.otherAddress)/30 dev cable")
    try await near.ip("link set cable up")
    try await far.ip("link set cable up")
  }

  /// The command that runs a program on the machine of the server.
  var here: [String] { near.command }

  /// The command that runs a program at the other end of the cable.
  var there: [String] { far.command }

  /// Cuts the cable. All later packets go to a hardware address that no device has, as behind a switch without the
  /// cable, and neither end is notified.
  ///
  /// - Returns: the times before and after the cut, for comparison with the server's clock. On a busy machine they
  ///   may be seconds apart.
  func cut() async throws -> ClosedRange<Date> {
    let before = Date()
    try await near.ip(
      "neighbour replace \(Self.otherAddress) lladdr \(Self.unusedAddress) nud permanent dev cable")
    let after = Date()
    try await far.ip(
      "neighbour replace \(Self.address) lladdr \(Self.unusedAddress) nud permanent dev cable")
    return before...max(before, after)
  }
}

/// A network namespace. It lasts as long as its process, which does nothing else.
private final class Namespace: Sendable {
  let pid: Int32
  private let input = Pipe()

  init() async throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    process.arguments = ["--net", "/bin/sh", "-c", "echo ready; exec cat"]
    process.standardInput = input
    let output = Pipe()
    process.standardOutput = output
    let lines = LineMailbox()
    lines.receive(from: output)
    try process.run()
    pid = process.processIdentifier
    guard try await lines.next() == "ready" else {
      throw LineClientError.unexpected("no network namespace")
    }
  }

  deinit {
    kill(pid, SIGKILL)
  }

  var command: [String] { ["/usr/bin/nsenter", "--net=/proc/\(pid)/ns/net", "--"] }

  func ip(_ arguments: String) async throws {
    let words = command + ["ip"] + arguments.split(separator: " ").map(String.init)
    let ending = try await Command.run(Array(words[1...]), program: words[0])
    guard ending.status == 0 else {
      throw LineClientError.unexpected("ip \(arguments): \(ending.errors)")
    }
  }
}
