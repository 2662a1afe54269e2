import CanopyTesting
import Foundation
import Testing

/// Runs the simulator. It takes over its process, so it runs in one of its own.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SimulatorTests {
  @Test func `twenty seeds find nothing`() throws {
    let run = try Simulator("20")
    #expect(run.status == 0, "\(run.output)")
  }

  @Test func `the same seed gives the same log, byte by byte, and another seed another one`() throws
  {
    let first = try Simulator("1", "--first", "7", "--log")
    let second = try Simulator("1", "--first", "7", "--log")
    let other = try Simulator("1", "--first", "8", "--log")
    #expect(first.output.utf8.count > 10_000)
    // The macro would look for the differences of both texts.
    let (isEqual, differs) = (first.output == second.output, first.output != other.output)
    #expect(isEqual)
    #expect(differs)
  }

  @Test func `a seed gives the same log whatever ran before it`() throws {
    let all = try Simulator("6", "--first", "3", "--hashes").output.split(separator: "\n")
    let last = try Simulator("1", "--first", "8", "--hashes").output.split(separator: "\n")
    #expect(all.dropLast().last == last.first)
  }

  @Test func `a planted defect is found`() throws {
    let run = try Simulator("50", "--plant", "replyBeforeDurable")
    #expect(run.status == 0, "\(run.output)")
  }
}

/// A run of the command.
private struct Simulator {
  let status: Int32
  let output: String

  init(_ arguments: String...) throws {
    let process = Process()
    let folder = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
      .deletingLastPathComponent()
    process.executableURL = folder.appending(path: "CanopySimulator")
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    status = process.terminationStatus
  }
}
