import CanopyWire
import Logging
import Testing

@testable import CanopySession

/// The lines of the log that the server keeps in memory.
@Suite(.timeLimit(.minutes(20))) struct LogLinesTests {
  private let lines = LogLines(now: { 5 })

  private var logger: Logger {
    Logger(label: "test") { [lines] _ in lines.handler(before: SwiftLogNoOpLogHandler()) }
  }

  private var all: LogPage {
    var page = LogPage()
    page.limit = LogPage.limitMax
    return page
  }

  @Test func `the oldest line is dropped for the first one beyond the bound`() {
    let logger = logger
    for number in 1...LogLines.linesMax { logger.info("\(number)") }
    #expect(lines.page(all).lines.first?.number == 1)
    logger.info("one more")
    let page = lines.page(all)
    #expect(page.lines.count == LogLines.linesMax)
    #expect(page.lines.first?.number == 2 && page.lines.last?.message == "one more")
    #expect(page.last == Int64(LogLines.linesMax) + 1)
  }

  @Test func `long texts are cut off at the last whole character`() throws {
    let long = String(repeating: "x", count: LogLines.messageBytesMax - 1)
    let logger = logger
    logger.info("\(long)y")
    logger.info("\(long)é", metadata: ["a": "\(long)"])
    let kept = lines.page(all).lines
    #expect(kept.map(\.message) == [long + "y", long])
    #expect(kept.last?.metadata.first?.value.utf8.count == LogLines.valueBytesMax)
    let many = (0...LogLines.valuesMax).map { ("k\($0)", Logger.MetadataValue.string("v")) }
    logger.info("many", metadata: Dictionary(uniqueKeysWithValues: many))
    #expect(lines.page(all).lines.last?.metadata.count == LogLines.valuesMax)
  }

  @Test func `secrets are hidden, also in the metadata of the logger and within others`() {
    var logger = logger
    logger[metadataKey: "Token"] = "secret"
    logger.notice("a", metadata: ["code": "secret", "b": ["password": "secret", "c": "d"]])
    let metadata = lines.page(all).lines.first?.metadata ?? []
    #expect(metadata.map(\.name) == ["Token", "b", "code"])
    #expect(metadata.map(\.value) == ["(hidden)", "c: d, password: (hidden)", "(hidden)"])
  }

  @Test func `a line below the level of the log is not kept`() {
    var logger = logger
    logger.logLevel = .warning
    logger.notice("a")
    logger.warning("b")
    #expect(lines.page(all).lines.map(\.message) == ["b"])
    #expect(lines.page(all).lines.map(\.time) == [5])
  }
}
