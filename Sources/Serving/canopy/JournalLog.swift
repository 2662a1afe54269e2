import CanopySystem
import Foundation
import Logging

/// A log handler for a standard error that the journal of systemd reads.
///
/// A line begins with its priority, such as `<4>` for a warning, which the journal takes off. It has no time and no
/// name of the program, because the journal adds both. An entry is one line, whatever its texts contain.
struct JournalLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.info

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let all = metadata.merging(event.metadata ?? [:]) { $1 }
    var line = "<\(event.level.journalPriority)>\(JournalLog.oneLine("\(event.message)"))"
    for (key, value) in all.sorted(by: { $0.key < $1.key }) {
      line += " \(key)=\(JournalLog.oneLine("\(value)"))"
    }
    // One call for each line, so that lines of other threads do not come in between.
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
  }

  private static func oneLine(_ text: String) -> String {
    Output.shown(text).replacing("\n", with: "\\n")
  }
}

extension Logger.Level {
  /// The priority in the journal: 0 for an emergency, 7 for debugging.
  fileprivate var journalPriority: Int {
    switch self {
    case .trace, .debug: 7
    case .info: 6
    case .notice: 5
    case .warning: 4
    case .error: 3
    case .critical: 2
    }
  }
}
