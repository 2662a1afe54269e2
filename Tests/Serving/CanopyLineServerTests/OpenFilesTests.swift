import CanopyLineServer
import Testing

@Suite struct OpenFilesTests {
  @Test func `connections get the descriptors that the store and the threads leave`() throws {
    #expect(try OpenFiles(limit: 1_024).connectionsMax(threads: 1) == 956)
    #expect(try OpenFiles(limit: 1_024).connectionsMax(threads: 4) == 944)
    #expect(try OpenFiles(limit: .max).connectionsMax(threads: 1) == .max - 68)
    for (limit, wanted, connections, namespaces) in [
      (100, 32, 32, 0), (131, 32, 63, 0), (132, 32, 48, 1), (1_024, 32, 732, 14),
      (1_024, 2, 924, 2), (20_000, 32, 19_420, 32),
    ] {
      let division = try OpenFiles(limit: limit).division(threads: 1, namespacesMax: wanted)
      #expect(division == (connections, namespaces), "\(limit)")
    }
  }

  @Test func `a limit that is too low is an error with the number that is needed`() throws {
    #expect(try OpenFiles(limit: 84).connectionsMax(threads: 1) == 16)
    for limit in [83, 16, 0, -1] {
      let error = #expect(throws: OpenFilesError.self) {
        try OpenFiles(limit: limit).connectionsMax(threads: 1)
      }
      #expect(
        error?.sentence
          == "the system lets this process open \(limit) files, and it needs at least 84; raise the "
          + "limit, for instance with ulimit -n 1024")
    }
    #expect(throws: OpenFilesError.self) {
      try OpenFiles(limit: 10_000).connectionsMax(threads: .max)
    }
  }

  @Test func `the limit of this process is known, and leaves room for a client`() throws {
    let files = OpenFiles.raised()
    #expect(files.limit >= 64)
    try files.checkClient()
    #expect(throws: OpenFilesError.self) { try OpenFiles(limit: 8).checkClient() }
  }
}
