import CanopySystem
import CanopyTesting
import Foundation
import Testing

/// The reports to a service manager, at a socket that stands for its own.
@Suite(.timeLimit(.minutes(5))) struct ServiceManagerTests {
  @Test func `a state arrives at a socket with a path`() throws {
    let folder = try TemporaryFolder()
    let path = folder.file("notify")
    let receiver = try DatagramReceiver(path)
    let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": path]))
    try manager.notify("READY=1")
    try manager.notify("STOPPING=1")
    #expect(receiver.next() == "READY=1")
    #expect(receiver.next() == "STOPPING=1")
    #expect(receiver.next() == nil)
  }

  @Test func `a state arrives at an abstract socket`() throws {
    let name = "canopy-test-\(UUID())"
    let receiver = try DatagramReceiver("@\(name)")
    let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": "@\(name)"]))
    try manager.notify("WATCHDOG=1")
    #expect(receiver.next() == "WATCHDOG=1")
  }

  @Test func `without a socket of a known kind there is no manager`() {
    for path in ["", "/", "@", "notify", "vsock:2:1234"] {
      #expect(ServiceManager(environment: ["NOTIFY_SOCKET": path]) == nil, "\(path)")
    }
    #expect(ServiceManager(environment: [:]) == nil)
  }

  @Test func `a socket that does not exist or has too long a name is an error`() throws {
    let folder = try TemporaryFolder()
    let missing = try #require(
      ServiceManager(environment: ["NOTIFY_SOCKET": folder.file("missing")]))
    #expect(throws: FileError.self) { try missing.notify("READY=1") }
    // An address has 108 bytes for the name.
    for (count, code) in [(107, ECONNREFUSED), (108, ENAMETOOLONG), (4_000, ENAMETOOLONG)] {
      let name = "@" + String(repeating: "x", count: count - 1)
      let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": name]))
      let error = #expect(throws: FileError.self) { try manager.notify("READY=1") }
      #expect(error?.code == code, "\(count)")
    }
  }

  @Test func `a manager that does not read is an error, and no wait`() throws {
    let name = "canopy-test-\(UUID())"
    let receiver = try DatagramReceiver("@\(name)")
    let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": "@\(name)"]))
    var sent = 0
    let error = #expect(throws: FileError.self) {
      while sent < 1_000_000 {
        try manager.notify("WATCHDOG=1")
        sent += 1
      }
    }
    #expect(error?.code == EAGAIN)
    #expect(receiver.next() == "WATCHDOG=1")
    try manager.notify("READY=1")
  }

  @Test func `a watchdog has a time, and is for this process`() {
    func timeout(_ variables: [String: String]) -> Duration? {
      ServiceManager(
        environment: variables.merging(["NOTIFY_SOCKET": "/run/notify"]) { $1 }, pid: 7)?
        .watchdogTimeout
    }
    #expect(timeout([:]) == nil)
    #expect(timeout(["WATCHDOG_USEC": "60000000"]) == .seconds(60))
    #expect(timeout(["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"]) == .seconds(60))
    #expect(timeout(["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"]) == nil)
    for wrong in ["0", "-1", "", "1s", "99999999999999999999"] {
      #expect(timeout(["WATCHDOG_USEC": wrong]) == nil, "\(wrong)")
    }
  }

  @Test func `the standard error is the journal only if it is the stream that the variable names`()
  {
    var status = stat()
    #expect(fstat(STDERR_FILENO, &status) == 0)
    let (device, inode) = (status.st_dev, status.st_ino)
    func isJournal(_ stream: String?) -> Bool {
      ServiceManager.journalHasStandardError(
        environment: stream.map { ["JOURNAL_STREAM": $0] } ?? [:])
    }
    #expect(isJournal("\(device):\(inode)"))
    #expect(!isJournal("\(device):\(inode)0"))
    #expect(!isJournal("\(device)"))
    #expect(!isJournal(nil))
  }
}
